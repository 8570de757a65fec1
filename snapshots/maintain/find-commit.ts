import type { Commit } from "../../schemas/snapshot.ts";
import { readCommit, readLog } from "../store/commits.ts";
import type { Storage } from "../store/storage.ts";

/** No commit, or more than one snapshot, has the name that was given. */
export class UnknownSnapshotError extends Error {
  override readonly name = "UnknownSnapshotError";
}

/**
 * The commit with this number, or the newest whose snapshot id begins with these 8 or more digits. Withdrawn ones count, so
 * that a rollback can be undone. Throws UnknownSnapshotError, CorruptObjectError or StorageError.
 */
export async function findCommit(storage: Storage, target: string): Promise<Commit> {
  if (/^[1-9]\d{0,9}$/.test(target) && target.length < 8) {
    const commit = await readCommit(storage, Number(target));
    if (commit) return commit;
    throw new UnknownSnapshotError(`${storage.location}: there is no commit ${target}`);
  }
  if (!/^[0-9a-f]{8,64}$/.test(target)) {
    throw new UnknownSnapshotError(
      `${JSON.stringify(target)} is neither a commit number nor 8 or more digits of a snapshot id`,
    );
  }
  const found = new Map<string, Commit>();
  for (const commit of await readLog(storage))
    if (commit.snapshotId.startsWith(target)) found.set(commit.snapshotId, commit);
  const [commit, another] = [...found.values()];
  if (!commit)
    throw new UnknownSnapshotError(
      `${storage.location}: no commit has a snapshot id that begins with ${target}`,
    );
  if (another) throw new UnknownSnapshotError(`several snapshot ids begin with ${target}; give more digits`);
  return commit;
}

/**
 * As findCommit, but also throws UnknownSnapshotError unless the log leads from `newest` back to the commit: whoever can
 * write to the store may have replaced a commit of the past.
 */
export async function findAncestor(storage: Storage, target: string, newest: Commit): Promise<Commit> {
  const wanted = await findCommit(storage, target);
  let successor = newest;
  while (successor.commit > wanted.commit) {
    const commit = await readCommit(storage, successor.commit - 1);
    if (commit?.digest !== successor.previous) break;
    successor = commit;
  }
  if (successor.digest === wanted.digest) return wanted;
  const reason = `the log does not lead from commit ${newest.commit} back to this commit ${wanted.commit}`;
  throw new UnknownSnapshotError(`${storage.location}: ${reason}`);
}
