import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { layout } from "../layout.ts";
import { MissingObjectError, readObject } from "../objects.ts";
import type { Storage } from "../storage/storage.ts";

/** How a cache does. */
export interface CacheCounts {
  bytes: number;
  hits: number;
  misses: number;
}

/** Stored pages, verified once and kept while they fit; one fetch at a time per page. */
export class PageCache {
  readonly #cache: LRUCache<string, Buffer, number>;
  #hits = 0;
  #misses = 0;

  constructor(storage: Storage, maxBytes: number) {
    this.#cache = new LRUCache<string, Buffer, number>({
      maxSize: maxBytes,
      sizeCalculation: (stored) => stored.length,
      fetchMethod: (hash, _stale, { context: bytes }) =>
        readObject(storage, layout.page(hash), { hash, bytes }),
      // Several readers share one fetch; an eviction meanwhile must not take it from them.
      ignoreFetchAbort: true,
    });
  }

  /** The page's stored bytes. Throws MissingObjectError, CorruptObjectError or StorageError. */
  async get({ hash, bytes }: ObjectRef): Promise<Buffer> {
    if (this.#cache.has(hash)) this.#hits += 1;
    else this.#misses += 1;
    const stored = await this.#cache.fetch(hash, { context: bytes });
    if (!stored) throw new MissingObjectError(layout.page(hash));
    return stored;
  }

  /** What is in memory now, and how often a page was found there or not. */
  counts(): CacheCounts {
    return { bytes: this.#cache.calculatedSize, hits: this.#hits, misses: this.#misses };
  }
}
