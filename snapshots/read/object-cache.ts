import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { MissingObjectError, readObject } from "../objects.ts";
import type { Storage } from "../storage/storage.ts";

/** Immutable objects by key, verified once and kept while they fit; one fetch at a time per object. */
export class ObjectCache {
  readonly #cache: LRUCache<string, Buffer, ObjectRef>;

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
    const stored = await this.#cache.fetch(key, { context: ref });
    if (!stored) throw new MissingObjectError(key);
    return stored;
  }
}
