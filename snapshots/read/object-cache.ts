import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { MissingObjectError, readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** How a cache does. */
export interface CacheCounts {
  bytes: number;
  hits: number;
  misses: number;
}

/** Immutable objects by key, verified once and kept while they fit; one fetch at a time per object. */
export class ObjectCache {
  readonly #cache: LRUCache<string, Buffer, ObjectRef>;
  #hits = 0;
  #misses = 0;

  constructor(storage: Storage, maxBytes: number) {
    this.#cache = new LRUCache<string, Buffer, ObjectRef>({
      maxSize: maxBytes,
      sizeCalculation: (stored) => stored.length,
      fetchMethod: (key, _stale, { context: ref }) => readObject(storage, key, ref),
      // Several readers share one fetch; an eviction meanwhile must not take it from them.
      ignoreFetchAbort: true,
    });
  }

  /** The object's stored bytes; `key` names it by its hash. Throws MissingObjectError, CorruptObjectError or StorageError. */
  async get(key: string, ref: ObjectRef): Promise<Buffer> {
    if (this.#cache.has(key)) this.#hits += 1;
    else this.#misses += 1;
    const stored = await this.#cache.fetch(key, { context: ref });
    if (!stored) throw new MissingObjectError(key);
    return stored;
  }

  /** What is in memory now, and how often an object was found there or not. */
  counts(): CacheCounts {
    return { bytes: this.#cache.calculatedSize, hits: this.#hits, misses: this.#misses };
  }
}
