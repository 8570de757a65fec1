import { Collecting } from "../../schemas/snapshot.ts";
import { layout } from "./layout.ts";
import { seal, unseal } from "./sealed.ts";
import type { Storage } from "./storage.ts";

/** A collection deletes what one record names for at most this long. */
export const deletingMinutes = 10;
/** Older records are of collections that were killed: none of their deletions can still be under way. */
const recordMinutes = 60;
/** The most keys a record names. */
export const recordKeys = 20_000;
const maxRecordBytes = 16 * 1024 * 1024;

/** A collection has deleted what a new commit needs, or may be about to. The next run does not meet it. */
export class CollectedMeanwhileError extends Error {
  override readonly name = "CollectedMeanwhileError";
}

/** Tells publishers what a collection is about to delete, in place of what it told before. */
export async function announce(storage: Storage, id: string, keys: readonly string[]): Promise<void> {
  await storage.put(layout.collectingRecord(id), seal({ keys }));
}

/**
 * Refuses a commit that a collection takes objects from. To be called when all of them have been put: a collection that
 * looks at them once more after that finds them changed, and one that looked before has a record here until its
 * deletions are done. `names` are public names that the commit will need. Throws CollectedMeanwhileError,
 * CorruptObjectError or StorageError.
 */
export async function refuseCollected(
  storage: Storage,
  objects: ReadonlySet<string>,
  names: Iterable<string> = [],
): Promise<void> {
  const needed = objects.union(new Set(names));
  const threats = await threatsTo(storage, needed);
  // Looked for after the records: a collection removes its record when it has deleted what that names.
  const { missing, newest } = await lookFor(storage, objects);
  // Both are times of the store: this machine's clock need not agree with it.
  const threat = threats.find(({ since }) => newest - since < recordMinutes * 60_000)?.key ?? missing;
  if (threat) throw new CollectedMeanwhileError(collectedMessage(storage, threat));
}

function collectedMessage({ location }: Storage, key: string): string {
  return `${location}: a collection takes ${key} away, which the new commit needs; run again when it has ended`;
}

/** One of the needed keys of each record that names any, and the time of the record. */
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

/** One of these objects that the store does not list, and the time of the newest. */
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
