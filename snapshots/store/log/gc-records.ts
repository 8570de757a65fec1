import { Fault } from "../../../schemas/errors.ts";
import { Collecting } from "../../../schemas/store/snapshot.ts";
import { CorruptObjectError } from "../errors.ts";
import { layout } from "../layout.ts";
import { seal, unseal } from "../records.ts";
import type { Storage } from "../storage.ts";
import { requireClock, storeTime } from "./clock.ts";

/** The longest time in which a collection deletes the keys of one record. */
export const deletingMinutes = 10;
/**
 * A record older than this belongs to a collection that was killed, so none of its deletions can still be under way.
 */
const recordMinutes = 60;
/** The most keys that one record names. */
export const recordKeys = 20_000;

/**
 * Tells publishers which keys a collection is about to delete. Replaces the collection's previous record. Throws
 * StorageError, also where this machine's clock is ahead: it is what the keys were chosen by.
 */
export async function announce(storage: Storage, id: string, keys: readonly string[]): Promise<void> {
  const record = layout.collecting(id);
  await storage.put(record, seal({ keys }));
  try {
    // Only now, since a directory tells its time with what is written.
    requireClock(storage);
  } catch (error) {
    await storage.delete(record);
    throw error;
  }
}

/**
 * Refuses a commit whose objects a collection deletes. Call it after all of them have been put: a collection that
 * checks an object after that sees that it has changed and keeps it, and a collection that checked before keeps its
 * record in the store until its deletions are done. `names` are public names that the commit will need.
 */
export async function refuseCollected(
  storage: Storage,
  objects: ReadonlySet<string>,
  names: Iterable<string> = [],
): Promise<void> {
  const needed = objects.union(new Set(names));
  // All times come from the store, since this machine's clock may differ from the store's. The objects may be old: a run
  // need not have written any of them.
  const begun = Math.max(await modifiedOf(storage, objects), storeTime(storage));
  const threats = await threatsTo(storage, needed, begun - recordMinutes * 60_000);
  // Listed only after the records were read: if a collection has just removed its record, its deletions are done and
  // show here.
  const { missing, newest } = await lookFor(storage, objects);
  const now = Math.max(newest, storeTime(storage));
  const threat = threats.find(({ since }) => now - since < recordMinutes * 60_000)?.key;
  const seen = threat
    ? `a collection is deleting ${threat}, which the new commit needs; run again when it has ended`
    : `${missing} was put, and the store does not list it: a collection has deleted it, or this run may not list the ` +
      "store, or sees an old listing; run again, and if that does not help, see that it may list";
  if (threat ?? missing) throw new Fault("COLLECTED_MEANWHILE", `${storage.location}: ${seen}`);
}

/**
 * For each record written after a time (epoch milliseconds) that names needed keys: one of these keys, and the record's
 * time. Older ones are not read.
 */
async function threatsTo(
  storage: Storage,
  needed: ReadonlySet<string>,
  after: number,
): Promise<{ key: string; since: number }[]> {
  const threats: { key: string; since: number }[] = [];
  for await (const { key: record, modified } of storage.list(layout.collecting.prefix)) {
    if (modified.getTime() <= after) continue;
    const key = (await readRecord(storage, record)).find((doomed) => needed.has(doomed));
    if (key) threats.push({ key, since: modified.getTime() });
  }
  return threats;
}

/** The keys in a record. Throws COLLECTED_MEANWHILE when it is damaged, since nobody can tell what it names. */
async function readRecord(storage: Storage, record: string): Promise<string[]> {
  try {
    const bytes = await storage.get(record, { maxBytes: layout.collecting.maxBytes! });
    return bytes ? unseal(record, bytes, Collecting).keys : [];
  } catch (error) {
    if (!(error instanceof CorruptObjectError)) throw error;
    throw new Fault(
      "COLLECTED_MEANWHILE",
      `${storage.location}: ${error.message}. It may be the record of a collection under way, and counts for ` +
        "an hour; " +
        "delete it when no gc is running, or run again later",
      { cause: error },
    );
  }
}

/** When the store got one of these objects, in epoch milliseconds: never later than the newest of them. */
async function modifiedOf(storage: Storage, objects: ReadonlySet<string>): Promise<number> {
  const [one] = objects;
  if (one === undefined) return Number.NEGATIVE_INFINITY;
  for await (const { key, modified } of storage.list(one)) if (key === one) return modified.getTime();
  return Number.NEGATIVE_INFINITY;
}

/** Lists the objects: one that is missing from the store, if any, and the newest one's time in epoch milliseconds. */
async function lookFor(
  storage: Storage,
  objects: ReadonlySet<string>,
): Promise<{ missing: string | undefined; newest: number }> {
  const missing = new Set(objects);
  const prefixes = new Set([...objects].map((key) => key.slice(0, key.lastIndexOf("/") + 1)));
  let newest = 0;
  for (const prefix of prefixes) {
    for await (const { key, modified } of storage.list(prefix)) {
      if (missing.delete(key)) newest = Math.max(newest, modified.getTime());
    }
  }
  return { missing: [...missing][0], newest };
}
