import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../../schemas/snapshot.ts";
import { MissingObjectError } from "../../store/errors.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { awaitBudget } from "../event-loop-budget.ts";

/** Size and hit rate of a cache, for the metrics. */
export interface CacheCounts {
  bytes: number;
  hits: number;
  misses: number;
}

/** Caches immutable objects by key. Each is verified when fetched; concurrent reads share one fetch. */
export class ObjectCache {
  readonly #cache: LRUCache<string, Buffer, ObjectRef>;
  #hits = 0;
  #misses = 0;

  constructor(storage: Storage, maxBytes: number) {
    this.#cache = new LRUCache<string, Buffer, ObjectRef>({
      maxSize: maxBytes,
      sizeCalculation: (stored) => stored.length,
      fetchMethod: (key, _stale, { context: ref }) => readObject(storage, key, ref, awaitBudget),
      // Several requests may wait for this fetch; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  /** The stored bytes of an object. */
  async get(key: string, ref: ObjectRef): Promise<Buffer> {
    const known = this.#cache.get(key);
    if (known) {
      this.#hits += 1;
      return known;
    }
    this.#misses += 1;
    const stored = await this.#cache.fetch(key, { context: ref });
    if (!stored) throw new MissingObjectError(key);
    return stored;
  }

  /** Bytes in memory now, and hits and misses since the start. */
  counts(): CacheCounts {
    return { bytes: this.#cache.calculatedSize, hits: this.#hits, misses: this.#misses };
  }
}
