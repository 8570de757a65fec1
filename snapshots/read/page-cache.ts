import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { layout } from "../layout.ts";
import { MissingObjectError, readObject } from "../objects.ts";
import type { Storage } from "../storage/storage.ts";

/** Stored pages, verified once and kept while they fit; one fetch at a time per page. */
export class PageCache {
  readonly #cache: LRUCache<string, Buffer, number>;

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
    const stored = await this.#cache.fetch(hash, { context: bytes });
    if (!stored) throw new MissingObjectError(layout.page(hash));
    return stored;
  }
}
