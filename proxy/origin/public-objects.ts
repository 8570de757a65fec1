import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import type { CacheCounts } from "../../snapshots/read/catalog/caches.ts";
import { ClientGone } from "./origin.ts";

const compress = promisify(gzip);

/** The bytes of an object by content coding. */
type Coded = Record<"identity" | "gzip", Buffer>;

/** Verified public objects, cached in memory. */
export interface PublicObjects {
  /** The object. `fetch` gets its bytes when it is not in memory. Throws what `fetch` throws. */
  get(object: ObjectRef, fetch: () => Promise<Buffer>): Promise<Coded>;
  has(object: ObjectRef): boolean;
  counts(): CacheCounts;
}

/**
 * A cache of at most `cacheBytes`. Objects are named by their digests, so no entry goes stale. Simultaneous requests for
 * an object share one fetch.
 */
export function publicObjects(cacheBytes: number): PublicObjects {
  const cache = new LRUCache<string, Coded, () => Promise<Buffer>>({
    maxSize: cacheBytes,
    sizeCalculation: (entry) => entry.identity.length + entry.gzip.length,
    async fetchMethod(_hash, _stale, { context: fetch }) {
      const identity = await fetch();
      return { identity, gzip: await compress(identity) };
    },
    // An eviction must not take the object from those who wait for it.
    ignoreFetchAbort: true,
  });
  let hits = 0;
  let misses = 0;

  return {
    async get(object, fetch) {
      const { hash } = object;
      const known = cache.get(hash);
      if (known) {
        hits += 1;
        return known;
      }
      misses += 1;
      let own = false;
      const context = () => {
        own = true;
        return fetch();
      };
      return cache.forceFetch(hash, { context }).catch((error) => {
        // Another request's fetch ended because its client went away: this request fetches for itself.
        if (own || !(error instanceof ClientGone)) throw error;
        return this.get(object, fetch);
      });
    },
    has: ({ hash }) => cache.has(hash),
    counts: () => ({ bytes: cache.calculatedSize, hits, misses }),
  };
}
