import type { Commit, ObjectRef } from "../../schemas/snapshot.ts";
import { type SiteOptions, updateMutableObjects } from "../publish/mutable-objects.ts";
import { PreviousSnapshot } from "../publish/previous-snapshot.ts";
import { publicNames } from "../publish/public-names.ts";
import { appendCommit, listCommits, newestCommit, readCommit } from "../store/commits.ts";
import { refuseCollected } from "../store/gc-records.ts";
import { inParallel } from "../store/in-parallel.ts";
import { hashIn, layout } from "../store/layout.ts";
import { MissingObjectError, readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** The snapshot asked for is none that can be rolled back to. */
export class RollbackError extends Error {
  override readonly name = "RollbackError";
}

/**
 * Makes an earlier snapshot the current one by a new commit, withdraws the commits in between, and holds publishing.
 * `target` is a commit number, or 8 or more leading digits of a snapshot id. Returns the new commit, or the current one
 * when that is this very rollback already, and brings the public names to it.
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
      // An earlier run may have stopped after its commit, with names that still show what it took back.
      await updateMutableObjects(storage, shown);
      return current;
    }
    throw new RollbackError(`commit ${current.commit} already has snapshot ${current.snapshotId}`);
  }
  await requireWhole(storage, current, wanted);
  const { snapshotId, manifest, counts, size } = wanted;
  const { digest: _, ...rest } = current;
  const commit = await appendCommit(storage, {
    ...rest,
    commit: current.commit + 1,
    snapshotId,
    manifest,
    counts,
    size,
    publishedAt: now().toISOString(),
    hold: true,
    withdrawn: [...current.withdrawn, [wanted.commit + 1, current.commit]],
    previous: current.digest,
  });
  await updateMutableObjects(storage, shown);
  return commit;
}

/** The commit of this number, or the newest one of this snapshot id; also one that was withdrawn, to take that back. */
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
  if (!commit) throw new RollbackError(`${storage.location}: no commit has a snapshot ${target}…`);
  if (another) throw new RollbackError(`${target} begins several snapshot ids; give more digits`);
  return commit;
}

/** Rolling back to a snapshot whose objects were collected would leave readers without any. */
async function requireWhole(storage: Storage, current: Commit, commit: Commit): Promise<void> {
  const gone = `the snapshot of commit ${commit.commit} is not whole in the store any more`;
  try {
    const snapshot = await PreviousSnapshot.read(storage, commit);
    if (!snapshot.complete) throw new RollbackError(gone);
    await putAgain(storage, current, snapshot);
  } catch (error) {
    if (error instanceof MissingObjectError) throw new RollbackError(gone, { cause: error });
    throw error;
  }
}

/**
 * Puts what the current snapshot does not reach once more, so that a collection which is about to delete it finds it
 * changed, and refuses when one may have looked before. The manifest comes last, as in a publish.
 */
async function putAgain(storage: Storage, current: Commit, wanted: PreviousSnapshot): Promise<void> {
  const safe = await keysOf(storage, current);
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

/** What the current snapshot reaches, as far as it is there. */
async function keysOf(storage: Storage, current: Commit): Promise<ReadonlyMap<string, number>> {
  try {
    return (await PreviousSnapshot.read(storage, current)).present;
  } catch (error) {
    if (error instanceof MissingObjectError) return new Map();
    throw error;
  }
}
