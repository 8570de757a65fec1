import { Fault } from "../../../schemas/errors.ts";
import { CorruptObjectError } from "../errors.ts";
import { layout } from "../layout.ts";
import { readRecord, seal } from "../objects.ts";
import { infoOf, type Storage, StorageError } from "../storage.ts";
import { timeOf } from "./commits.ts";

/** The longest time, in minutes, that a collection takes to delete the keys of one record. */
export const deletingMinutes = 10;
/** An older record is of a collection that was killed, so none of its deletions can still be under way. */
const recordMinutes = 60;
export const recordKeys = 20_000;

/**
 * Tells publishers which keys a collection is about to delete, in place of its previous record. Refuses when this
 * machine's clock is more than an hour ahead of the store's, as far as that is known.
 */
export async function announce(storage: Storage, id: string, keys: readonly string[]): Promise<void> {
  const record = layout.collecting(id);
  await storage.put(record, seal({ keys }));
  // Age is judged by this machine's clock. A directory reveals its own only when something is written.
  const machine = new Date();
  const store = timeOf(storage, machine);
  if (machine.getTime() - store.getTime() <= 3_600_000) return;
  await storage.delete(record);
  throw new StorageError(
    `${storage.location}: this machine's clock says ${machine.toISOString()}, and the store's ` +
      `${store.toISOString()}. What is old is judged by the first, so nothing is deleted; set it right, and run gc again`,
  );
}

/**
 * Refuses a commit whose objects a collection deletes. Call it after all of them were put. A collection that checks an
 * object later sees that it has changed, and keeps it; one that checked before keeps its record until its deletions are
 * done. `names` are public names that the commit will need.
 */
export async function refuseCollected(
  storage: Storage,
  objects: ReadonlySet<string>,
  names: Iterable<string> = [],
): Promise<void> {
  const needed = objects.union(new Set(names));
  // All times are the store's, since this machine's clock may differ. The objects may be old: a run need not have
  // written any of them.
  const [one] = objects;
  const put = one === undefined ? undefined : (await infoOf(storage, one))?.modified.getTime();
  const begun = Math.max(put ?? Number.NEGATIVE_INFINITY, storeTime(storage));
  const threats: { key: string; since: number }[] = [];
  for await (const { key: record, modified } of storage.list(layout.collecting.prefix)) {
    const since = modified.getTime();
    if (since <= begun - recordMinutes * 60_000) continue;
    const key = (await keysIn(storage, record)).find((doomed) => needed.has(doomed));
    if (key) threats.push({ key, since });
  }
  // Must come after the records were read: if a collection has just removed its record, its deletions are done and show
  // here.
  const unlisted = new Set(objects);
  let newest = 0;
  for (const prefix of new Set([...objects].map((key) => key.slice(0, key.lastIndexOf("/") + 1))))
    for await (const { key, modified } of storage.list(prefix))
      if (unlisted.delete(key)) newest = Math.max(newest, modified.getTime());
  const [missing] = unlisted;
  const now = Math.max(newest, storeTime(storage));
  const threat = threats.find(({ since }) => now - since < recordMinutes * 60_000)?.key;
  const seen = threat
    ? `a collection is deleting ${threat}, which the new commit needs; run again when it has ended`
    : `${missing} was put, and the store does not list it: a collection has deleted it, or this run may not list the ` +
      "store, or sees an old listing; run again, and if that does not help, see that it may list";
  if (threat ?? missing) throw new Fault("COLLECTED_MEANWHILE", `${storage.location}: ${seen}`);
}

/** A damaged record, and an object that is none, stops the commit: nobody can tell which keys it stands for. */
async function keysIn(storage: Storage, record: string): Promise<string[]> {
  try {
    const { collecting } = layout;
    if (!collecting.has(record)) throw new CorruptObjectError(record, "it is not the record of a collection");
    return (await readRecord(storage, collecting, [collecting.nameIn(record)]))?.keys ?? [];
  } catch (error) {
    if (!(error instanceof CorruptObjectError)) throw error;
    throw new Fault(
      "COLLECTED_MEANWHILE",
      `${storage.location}: ${error.message}. It may be the record of a collection under way, and counts for ` +
        "an hour; delete it when no gc is running, or run again later",
      { cause: error },
    );
  }
}

/** Epoch milliseconds by the store's clock; 0 where the store never tells it. */
function storeTime(storage: Storage): number {
  return storage.clockAhead ? timeOf(storage, new Date()).getTime() : 0;
}
