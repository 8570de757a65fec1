import type { ObjectRef } from "../../schemas/store/snapshot.ts";
import { Memo } from "../../snapshots/read/memo.ts";
import { type Coding, inEachCoding } from "../reply/coding.ts";
import { ClientGone } from "./origin.ts";

export type PublicObjects = ReturnType<typeof publicObjects>;

/**
 * Verified public objects in a memory cache of at most `cacheBytes`. Simultaneous requests for an object share one
 * fetch.
 */
export function publicObjects(cacheBytes: number) {
  const cache = new Memo<Record<Coding, Buffer>>(
    { most: cacheBytes },
    ({ identity, gzip }) => identity.length + gzip.length,
  );

  /** The object by content coding. `fetch` gets its bytes when they are not in memory. */
  async function get(object: ObjectRef, fetch: () => Promise<Buffer>): Promise<Record<Coding, Buffer>> {
    let own = false;
    const make = async () => {
      own = true;
      return inEachCoding(await fetch());
    };
    // When the client whose fetch the others wait for goes away, the next of them fetches for itself.
    const shared = await cache.get(object.hash, make).catch((error) => {
      if (own || !(error instanceof ClientGone)) throw error;
    });
    return shared ?? get(object, fetch);
  }

  return { get, has: ({ hash }: ObjectRef) => cache.has(hash), counts: () => cache.counts() };
}
