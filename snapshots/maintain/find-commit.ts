import { Fault } from "../../schemas/errors.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import { CorruptObjectError, isLoss, MissingObjectError, ObjectError } from "../store/errors.ts";
import { logFrom } from "../store/log/commits.ts";
import type { Storage } from "../store/storage.ts";

/**
 * The commit with this number, or the newest whose snapshot id begins with these 8 or more digits. Only `newest` and
 * commits that it leads back to count: whoever can write to the store may have put others there. Withdrawn ones count
 * too, so that a rollback can be undone.
 */
export async function findCommit(storage: Storage, target: string, newest: Commit): Promise<Commit> {
  const number = /^[1-9]\d{0,6}$/.test(target) ? Number(target) : undefined;
  if (number === undefined && !/^[0-9a-f]{8,64}$/.test(target)) {
    throw new Fault(
      "SNAPSHOT_NOT_FOUND",
      `${JSON.stringify(target)} is neither a commit number nor 8 or more digits of a snapshot id`,
    );
  }
  if (number !== undefined && number > newest.entry.commit)
    throw new Fault("SNAPSHOT_NOT_FOUND", `${storage.location}: there is no commit ${number}`);
  const found = new Map<string, Commit>();
  let broken: Error | undefined;
  try {
    for await (const commit of logFrom(storage, newest, number)) {
      const { snapshotId } = commit.entry;
      const fits = number === undefined ? snapshotId.startsWith(target) : commit.entry.commit === number;
      if (fits && !found.has(snapshotId)) found.set(snapshotId, commit);
    }
  } catch (error) {
    if (!(error instanceof ObjectError)) throw error;
    broken = error;
  }
  const [commit, another] = [...found.values()];
  if (another)
    throw new Fault("SNAPSHOT_NOT_FOUND", `several snapshot ids begin with ${target}; give more digits`);
  if (commit) return commit;
  const reason = broken
    ? `the log does not lead from commit ${newest.entry.commit} back to ` +
      `${number === undefined ? "a snapshot" : "commit"} ${target}: ${broken.message}`
    : `no commit has a snapshot id that begins with ${target}`;
  throw new Fault("SNAPSHOT_NOT_FOUND", `${storage.location}: ${reason}`, { cause: broken });
}

/**
 * Works on a snapshot that a collection keeps. The error of a lost or damaged object then names the manifest, whose
 * deletion gives the snapshot up, unless that itself is gone.
 */
export async function blamingManifest<T>(manifest: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isGone = error instanceof MissingObjectError && error.key === manifest;
    if (!isLoss(error) || isGone) throw error;
    const reason = error.message.slice(error.key.length + 2);
    const told =
      `${reason}. Nothing is deleted while a snapshot that is to be kept lacks it; its manifest is ` +
      `${manifest}`;
    throw new CorruptObjectError(error.key, told, { cause: error });
  }
}
