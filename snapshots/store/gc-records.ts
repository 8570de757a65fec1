import { Collecting } from "../../schemas/snapshot.ts";
import { layout } from "./layout.ts";
import { seal, unseal } from "./sealed.ts";
import type { Storage } from "./storage.ts";

/** The longest time in which a collection deletes the keys of one record. */
export const deletingMinutes = 10;
/**
 * A record older than this belongs to a collection that was killed, so none of its deletions can still be under way.
 */
const recordMinutes = 60;
/** The most keys that one record names. */
export const recordKeys = 20_000;
const maxRecordBytes = 16 * 1024 * 1024;

/** A collection has deleted, or may be about to delete, what a new commit needs. Running again helps. */
export class CollectedMeanwhileError extends Error {
  override readonly name = "CollectedMeanwhileError";
}

/** Tells publishers which keys a collection is about to delete. Replaces the collection's previous record. */
export async function announce(storage: Storage, id: string, keys: readonly string[]): Promise<void> {
  await storage.put(layout.collectingRecord(id), seal({ keys }));
}

/**
 * Refuses a commit whose objects a collection deletes. Call it after all of them have been put: a collection that
 * checks an object after that sees that it has changed and keeps it, and a collection that checked before keeps its
 * record in the store until its deletions are done. `names` are public names that the commit will need. Throws
 * CollectedMeanwhileError, CorruptObjectError or StorageError.
 */
export async function refuseCollected(
  storage: Storage,
  objects: ReadonlySet<string>,
  names: Iterable<string> = [],
): Promise<void> {
  const needed = objects.union(new Set(names));
  const threats = await threatsTo(storage, needed);
  // Listed only after the records were read: if a collection has just removed its record, its deletions are done and
  // show here.
  const { missing, newest } = await lookFor(storage, objects);
  // Both times come from the store, since this machine's clock may differ from the store's.
  const threat = threats.find(({ since }) => newest - since < recordMinutes * 60_000)?.key ?? missing;
  if (threat) throw new CollectedMeanwhileError(collectedMessage(storage, threat));
}

function collectedMessage({ location }: Storage, key: string): string {
  return `${location}: a collection is deleting ${key}, which the new commit needs; run again when it has ended`;
}

/** For each record that names needed keys: one of these keys, and the record's time in epoch milliseconds. */
async function threatsTo(
  storage: Storage,
  needed: ReadonlySet<string>,
): Promise<{ key: string; since: number }[]> {
  const threats: { key: string; since: number }[] = [];
  for await (const { key: record, modified } of storage.list(layout.collecting)) {
    const bytes = await storage.get(record, { maxBytes: maxRecordBytes });
    const key = bytes && unseal(record, bytes, Collecting).keys.find((doomed) => needed.has(doomed));
    if (key) threats.push({ key, since: modified.getTime() });
  }
  return threats;
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
