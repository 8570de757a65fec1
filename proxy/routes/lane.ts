import { type BulkheadPolicy, bulkhead } from "cockatiel";
import { LRUCache } from "lru-cache";

// A page of rare matches may hold hundreds of stored pages in memory until it is put together. The waiting requests are
// bounded by the connections, each of which waits for one answer.
const atOnce = 16;
// Otherwise one owner could keep all others waiting.
const perOwner = 4;
const busyOwners = 1000;

/** Bounds how many heavy answers are prepared at a time, in all and per owner. Work for which nobody waits any more is not begun. */
export function createLane() {
  const all = bulkhead(atOnce, Number.POSITIVE_INFINITY);
  const owners = new LRUCache<string, BulkheadPolicy>({
    max: busyOwners,
    memoMethod: () => bulkhead(perOwner, Number.POSITIVE_INFINITY),
  });
  return <T>(owner: string, work: () => Promise<T>, late: AbortSignal): Promise<T> => {
    const timely = () => {
      late.throwIfAborted();
      return work();
    };
    return owners.memo(owner).execute(() => all.execute(timely));
  };
}
