import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import type { CacheCounts } from "../../snapshots/read/object-cache.ts";
import type { Coding } from "../reply/coding.ts";
import { ClientGone } from "./forward.ts";

const compress = promisify(gzip);

/** Verified public objects in both codings, kept in memory. */
export interface PublicObjects {
  /** The object in a coding; one that is not in memory is had by `fetch`. Throws what that throws. */
  get(object: ObjectRef, coding: Coding, fetch: () => Promise<Buffer>): Promise<Buffer>;
  /** Whether the object is in memory. */
  has(object: ObjectRef): boolean;
  counts(): CacheCounts;
}

type Entry = Record<Coding, Buffer>;

/**
 * A cache of at most `cacheBytes`. Names of objects are their digests, so nothing in it goes stale. Whoever wants an object
 * that is being fetched waits for that fetch.
 */
export function publicObjects(cacheBytes: number): PublicObjects {
  const cache = new LRUCache<string, Entry>({
    maxSize: cacheBytes,
    sizeCalculation: (entry) => entry.identity.length + entry.gzip.length,
  });
  const underway = new Map<string, Promise<Entry>>();
  let hits = 0;
  let misses = 0;

  async function load({ hash }: ObjectRef, fetch: () => Promise<Buffer>): Promise<Entry> {
    const identity = await fetch();
    const entry = { identity, gzip: await compress(identity) };
    cache.set(hash, entry);
    return entry;
  }

  async function shared(object: ObjectRef, fetch: () => Promise<Buffer>): Promise<Entry> {
    for (;;) {
      const running = underway.get(object.hash);
      if (!running) break;
      try {
        return await running;
      } catch (error) {
        // That fetch ended with the client it was made for; another one takes its place.
        if (!(error instanceof ClientGone)) throw error;
      }
    }
    const started = load(object, fetch).finally(() => underway.delete(object.hash));
    underway.set(object.hash, started);
    return started;
  }

  return {
    async get(object, coding, fetch) {
      const held = cache.get(object.hash);
      if (held) hits += 1;
      else misses += 1;
      return (held ?? (await shared(object, fetch)))[coding];
    },
    has: ({ hash }) => cache.has(hash),
    counts: () => ({ bytes: cache.calculatedSize, hits, misses }),
  };
}
