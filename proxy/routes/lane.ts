import { type BulkheadPolicy, bulkhead } from "cockatiel";
import { LRUCache } from "lru-cache";

// A page of a rare match may hold hundreds of stored pages until it is put together. Those that wait are bounded
// by the connections, of which each waits for one answer.
const atOnce = 16;
// Else those of one owner could keep all others waiting.
const ofOwner = 4;
const busyOwners = 1000;

/** What heavy requests go through: so many of them at a time, and fewer of one owner. */
export type Lane = <T>(owner: string, work: () => Promise<T>) => Promise<T>;

/** A lane of this process. */
export function createLane(): Lane {
  const all = bulkhead(atOnce, Number.POSITIVE_INFINITY);
  const owners = new LRUCache<string, BulkheadPolicy>({
    max: busyOwners,
    memoMethod: () => bulkhead(ofOwner, Number.POSITIVE_INFINITY),
  });
  return (owner, work) => owners.memo(owner).execute(() => all.execute(work));
}
