import type { Commit, ObjectRef } from "../../schemas/store/stored-objects.ts";
import { recordBetween } from "../changes/record.ts";
import { MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { JsonValue, parseJson } from "../store/json.ts";
import { hashIn, layout } from "../store/layout.ts";
import { logFrom } from "../store/log/commits.ts";
import { type ReadObject, readObject, readParsed } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { objectWriter } from "./object-writer.ts";
import type { Before } from "./previous-snapshot.ts";
import type { SiteOptions } from "./public/mutable-objects.ts";

/**
 * Each run looks at the change records of this many newest commits, and reads at most this many bytes of their parts.
 */
const looked = 32;
const lookedBytes = 16 * 1024 * 1024;

/**
 * Makes lost or damaged change records again, while the store has both snapshots of each. Looks at those of all commits
 * only where some are `faulty`. `before` is what the run began with where it has made no commit: if the store has few
 * records, all of them are whole, and the entries of these commits tell that none is missing, no commits are read.
 */
export async function mendChanges(
  before: Before | undefined,
  newest: Commit,
  {
    storage,
    faulty = new Set(),
    warn = () => {},
  }: Pick<SiteOptions, "faulty"> & { storage: Storage; warn?: (line: string) => void },
): Promise<void> {
  const anywhere = [...faulty].some((key) => key.startsWith(layout.changeRecord.prefix));
  const lowest = anywhere ? 1 : Math.max(1, newest.entry.commit - looked);
  const { log, previous } = before ?? {};
  if (log && previous && !anywhere) {
    const wanted = newest.entry.commit - lowest;
    if (await hasWhole(previous.listed, await log.tail(), wanted)) return;
  }
  const check = recordCheck(storage, faulty);
  let newer: Commit | undefined;
  // Others report where the log leads no further back.
  await unless(ObjectError, async () => {
    for await (const since of logFrom(storage, newest, lowest)) {
      const until = newer;
      newer = since;
      const changes = until?.changes;
      const damage = changes && (await orDamage(() => check(changes)));
      if (!(damage instanceof ObjectError)) continue;
      const outcome = await orDamage(() => recordBetween(storage, objectWriter(storage), since, until!));
      const tell = (what: string) => warn(`${damage.message}; ${what}`);
      const again = "it is made again from both snapshots";
      const other = "this version of the program makes another one of both snapshots";
      if (!(outcome instanceof ObjectError)) tell(outcome?.ref.hash === changes?.hash ? again : other);
      // Otherwise one of the snapshots was collected.
      else if (![since, until!].some(({ manifest }) => layout.manifest(manifest.hash) === outcome.key))
        tell(`it cannot be made again: ${outcome.message}`);
    }
  });
}

/** Whether a store has a change record for each of the `wanted` newest commits, few others, and all of them whole. */
async function hasWhole(
  storage: Storage,
  entries: readonly Buffer[] | undefined,
  wanted: number,
): Promise<boolean> {
  const refs: ObjectRef[] = [];
  for await (const { key, bytes } of storage.list(layout.changeRecord.prefix)) {
    if (layout.changeRecord.has(key)) refs.push({ hash: hashIn(key), bytes });
    if (refs.length > 2 * looked) return false;
  }
  const check = recordCheck(storage);
  const whole = await unless(ObjectError, async () => {
    const ids = (entries ?? [])
      .slice(-wanted - 1)
      .map((entry) => new JsonValue(layout.log, parseJson(layout.log, entry)).member("snapshotId").text());
    const missing = new Set(ids.slice(1).map((id, place) => `${ids[place]} ${id}`));
    for (const ref of refs) {
      const { since, until } = await check(ref);
      missing.delete(`${since} ${until}`);
    }
    return ids.length > wanted && missing.size === 0;
  });
  return whole ?? false;
}

/** Reads `faulty` objects as missing. */
function recordCheck(storage: Storage, faulty: ReadonlySet<string> = new Set()) {
  let bytesLeft = lookedBytes;
  const read: ReadObject = async (key, ref) => {
    if (faulty.has(key)) throw new MissingObjectError(key);
    return readObject(storage, key, ref);
  };
  return async (ref: ObjectRef) => {
    const record = await readParsed(read, layout.changeRecord, ref);
    for (const part of [...record.before, ...record.after]) {
      const key = layout.changePart(part.hash);
      bytesLeft -= part.bytes;
      if (bytesLeft >= 0 || faulty.has(key)) await read(key, part);
    }
    return record;
  };
}

/** The result of the work, or the damage that it met. */
function orDamage<T>(work: () => Promise<T>): Promise<T | ObjectError> {
  return unless(ObjectError, work, (error: ObjectError) => error);
}
