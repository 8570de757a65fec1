import type { ChangeRecord, Commit, ObjectRef } from "../../schemas/store/stored-objects.ts";
import { recordBetween } from "../changes/record.ts";
import { MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { hashIn, layout } from "../store/layout.ts";
import { logFrom } from "../store/log/commits.ts";
import { type ReadObject, readObject, readParsed } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { ObjectWriter } from "./object-writer.ts";
import type { SiteOptions } from "./public/mutable-objects.ts";

/**
 * Each run looks at the change records of this many newest commits, and reads at most this many bytes of their parts.
 */
const looked = 32;
const lookedBytes = 16 * 1024 * 1024;

/**
 * Makes lost or damaged change records again, while the store has both snapshots of each. Looks at those of all commits
 * only where some are `faulty`. `listed` is the store where the run has made no commit: if it has few records, at least
 * as many as these commits, and all are whole, no commits are read.
 */
export async function mendChanges(
  listed: Storage | undefined,
  newest: Commit,
  {
    storage,
    faulty = new Set(),
    warn = () => {},
  }: Pick<SiteOptions, "faulty"> & { storage: Storage; warn?: (line: string) => void },
): Promise<void> {
  const anywhere = [...faulty].some((key) => key.startsWith(layout.changeRecord.prefix));
  const lowest = anywhere ? 1 : Math.max(1, newest.entry.commit - looked);
  if (listed && !anywhere && (await hasWhole(listed, newest.entry.commit - lowest))) return;
  const check = recordCheck(storage, faulty);
  let newer: Commit | undefined;
  // Others report where the log leads no further back.
  await unless(ObjectError, async () => {
    for await (const older of logFrom(storage, newest, lowest)) {
      const changes = newer?.changes;
      const damage = changes && (await orDamage(() => check(changes)));
      if (damage instanceof ObjectError) await mend(storage, older, newer!, damage, warn);
      newer = older;
    }
  });
}

/** Whether a store has at least `wanted` change records, few others, and all of them whole. */
async function hasWhole(storage: Storage, wanted: number): Promise<boolean> {
  const refs: ObjectRef[] = [];
  for await (const { key, bytes } of storage.list(layout.changeRecord.prefix)) {
    if (layout.changeRecord.has(key)) refs.push({ hash: hashIn(key), bytes });
    if (refs.length > 2 * looked) return false;
  }
  const check = recordCheck(storage);
  const whole = await unless(ObjectError, async () => {
    for (const ref of refs) await check(ref);
    return refs.length >= wanted;
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
    const { before, after }: ChangeRecord = await readParsed(read, layout.changeRecord, ref);
    for (const part of [...before, ...after]) {
      const key = layout.changePart(part.hash);
      bytesLeft -= part.bytes;
      if (bytesLeft >= 0 || faulty.has(key)) await read(key, part);
    }
  };
}

/** The result of the work, or the damage that it met. */
function orDamage<T>(work: () => Promise<T>): Promise<T | ObjectError> {
  return unless(ObjectError, work, (error: ObjectError) => error);
}

/** Makes the change record of a commit again, unless one of its snapshots was collected. */
async function mend(
  storage: Storage,
  older: Commit,
  newer: Commit,
  { message }: ObjectError,
  warn: (line: string) => void,
): Promise<void> {
  const made = await orDamage(() => recordBetween(storage, new ObjectWriter(storage), older, newer));
  if (made instanceof ObjectError) {
    if ([older, newer].some(({ manifest }) => layout.manifest(manifest.hash) === made.key)) return;
    warn(`${message}; it cannot be made again: ${made.message}`);
  } else if (made?.ref.hash !== newer.changes?.hash)
    warn(`${message}; this version of the program makes another one of both snapshots`);
  else warn(`${message}; it is made again from both snapshots`);
}
