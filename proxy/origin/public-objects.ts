import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import type { CacheCounts } from "../../snapshots/read/object-cache.ts";
import type { Coding } from "../reply/reply.ts";
import type { Origin } from "./origin.ts";

const compress = promisify(gzip);

/** Verified public objects in both codings, kept in memory. */
export interface PublicObjects {
  /** The object in a coding. Throws what the origin throws. */
  get(object: ObjectRef, coding: Coding): Promise<Buffer>;
  /** Whether the object is in memory. */
  has(object: ObjectRef): boolean;
  counts(): CacheCounts;
}

/**
 * Public objects of an origin behind a cache of at most `cacheBytes`. Their names are their digests, so
 * nothing kept ever goes stale. Requests for one object that is being fetched wait for that fetch.
 */
export function publicObjects(origin: Origin, cacheBytes: number): PublicObjects {
  type Entry = Record<Coding, Buffer>;
  const cache = new LRUCache<string, Entry>({
    maxSize: cacheBytes,
    sizeCalculation: (entry) => entry.identity.length + entry.gzip.length,
  });
  const underway = new Map<string, Promise<Entry>>();
  let hits = 0;
  let misses = 0;

  async function load(object: ObjectRef): Promise<Entry> {
    const identity = await origin.fetch(object);
    const entry = { identity, gzip: await compress(identity) };
    cache.set(object.hash, entry);
    return entry;
  }

  function shared(object: ObjectRef): Promise<Entry> {
    const running = underway.get(object.hash);
    if (running) return running;
    const started = load(object).finally(() => underway.delete(object.hash));
    underway.set(object.hash, started);
    return started;
  }

  return {
    async get(object, coding) {
      const held = cache.get(object.hash);
      if (held) hits += 1;
      else misses += 1;
      return (held ?? (await shared(object)))[coding];
    },
    has: ({ hash }) => cache.has(hash),
    counts: () => ({ bytes: cache.calculatedSize, hits, misses }),
  };
}
