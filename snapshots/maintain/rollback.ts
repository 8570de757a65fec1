import { type Commit, formatVersion, type ObjectRef } from "../../schemas/snapshot.ts";
import { type SiteOptions, updateMutableObjects } from "../publish/mutable-objects.ts";
import { PreviousSnapshot } from "../publish/previous-snapshot.ts";
import { publicNames } from "../publish/public-names.ts";
import { appendCommit, listCommits, newestCommit, publishedAtAfter, readCommit } from "../store/commits.ts";
import { refuseCollected } from "../store/gc-records.ts";
import { inParallel } from "../store/in-parallel.ts";
import { hashIn, layout } from "../store/layout.ts";
import { MissingObjectError, readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** The requested snapshot cannot be rolled back to. */
export class RollbackError extends Error {
  override readonly name = "RollbackError";
}

/**
 * Makes an earlier snapshot current by a new commit, withdraws the commits in between, and puts publishing on hold.
 * `target` is a commit number, or the first 8 or more digits of a snapshot id. Also updates the public names. Returns the
 * new commit, or the current one when that already is this rollback.
 * Throws RollbackError, CommitLostError, CollectedMeanwhileError, CommitUnknownError, CorruptObjectError or StorageError.
 */
export async function rollback(
  storage: Storage,
  target: string,
  now: () => Date,
  shown: SiteOptions = {},
): Promise<Commit> {
  const current = await newestCommit(storage);
  if (!current) throw new RollbackError(`${storage.location}: nothing has been published yet`);
  const wanted = await findCommit(storage, target);
  if (wanted.snapshotId === current.snapshotId) {
    if (current.hold) {
      // An earlier run may have stopped after its commit, before it updated the public names.
      await updateMutableObjects(storage, shown);
      return current;
    }
    throw new RollbackError(`commit ${current.commit} already has snapshot ${current.snapshotId}`);
  }
  await requireComplete(storage, current, wanted);
  const { snapshotId, archiveRoot, manifest, counts, size } = wanted;
  const commit = await appendCommit(storage, {
    formatVersion,
    commit: current.commit + 1,
    snapshotId,
    archiveRoot,
    manifest,
    changes: null,
    changeCounts: null,
    counts,
    size,
    publishedAt: publishedAtAfter(current, now()),
    hold: true,
    withdrawn: [...current.withdrawn, [wanted.commit + 1, current.commit]],
    previous: current.digest,
  });
  await updateMutableObjects(storage, shown);
  return commit;
}

/** The commit with this number, or the newest with this snapshot id. Withdrawn ones count, so a rollback can be undone. */
async function findCommit(storage: Storage, target: string): Promise<Commit> {
  if (/^[1-9]\d{0,9}$/.test(target) && target.length < 8) {
    const commit = await readCommit(storage, Number(target));
    if (commit) return commit;
    throw new RollbackError(`${storage.location}: there is no commit ${target}`);
  }
  if (!/^[0-9a-f]{8,64}$/.test(target)) {
    throw new RollbackError(
      `${JSON.stringify(target)} is neither a commit number nor 8 or more digits of a snapshot id`,
    );
  }
  const found = new Map<string, Commit>();
  for (const number of await listCommits(storage)) {
    const commit = await readCommit(storage, number);
    if (commit?.snapshotId.startsWith(target)) found.set(commit.snapshotId, commit);
  }
  const [commit, another] = [...found.values()];
  if (!commit)
    throw new RollbackError(`${storage.location}: no commit has a snapshot id that begins with ${target}`);
  if (another) throw new RollbackError(`several snapshot ids begin with ${target}; give more digits`);
  return commit;
}

/** Throws RollbackError unless the store has every object of the snapshot, and protects those from collections. */
async function requireComplete(storage: Storage, current: Commit, commit: Commit): Promise<void> {
  const gone = `the snapshot of commit ${commit.commit} is incomplete: the store no longer has all its objects`;
  try {
    const snapshot = await PreviousSnapshot.read(storage, commit);
    if (!snapshot.complete) throw new RollbackError(gone);
    await rewriteObjects(storage, current, snapshot);
  } catch (error) {
    if (error instanceof MissingObjectError) throw new RollbackError(gone, { cause: error });
    throw error;
  }
}

/**
 * Writes again every object that the current snapshot does not reach. A collection that is about to delete one then finds
 * it changed. Throws CollectedMeanwhileError when a collection may have checked it before. The manifest comes last, as in
 * a publish run.
 */
async function rewriteObjects(storage: Storage, current: Commit, wanted: PreviousSnapshot): Promise<void> {
  const safe = (await PreviousSnapshot.readIfKept(storage, current))?.present ?? new Map();
  const again = async (key: string, ref: ObjectRef) => {
    await storage.put(key, await readObject(storage, key, ref));
  };
  const unsafe = [...wanted.present].filter(([key]) => !safe.has(key));
  await inParallel(unsafe, ([key, bytes]) => again(key, { hash: hashIn(key), bytes }));
  const objects = new Set(unsafe.map(([key]) => key));
  await refuseCollected(storage, objects, publicNames(wanted.manifest).keys());
  const { manifest } = wanted.commit;
  const manifestKey = layout.manifest(manifest.hash);
  await again(manifestKey, manifest);
  await refuseCollected(storage, new Set([manifestKey]));
}
