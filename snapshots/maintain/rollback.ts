import { Fault } from "../../schemas/errors.ts";
import type { Commit, ObjectRef } from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { recordBetween } from "../changes/record.ts";
import { signExportsOf } from "../export/export-records.ts";
import { objectWriter } from "../publish/object-writer.ts";
import { type PreviousSnapshot, readPrevious, readPreviousIfKept } from "../publish/previous-snapshot.ts";
import { treeBefore } from "../publish/public/log.ts";
import {
  namesOfProtocols,
  type SiteOptions,
  updateMutableObjects,
} from "../publish/public/mutable-objects.ts";
import { MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { hashIn, layout } from "../store/layout.ts";
import { appendCommit, type CommitContent, publicationTime, withdraw } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import {
  lacksSignature,
  readRunLog,
  requireKey,
  requireStillNewest,
  signerOf,
} from "../trust/log/believe.ts";
import { findCommit } from "./commits.ts";

/**
 * Makes an earlier snapshot current by a new commit, withdraws the commits in between, puts publishing on hold, and
 * updates the public names. `target` is a commit number, or the first 8 or more digits of a snapshot id. Returns the
 * new commit, or the current one when that already is this rollback.
 */
export async function rollback(
  storage: Storage,
  target: string,
  now: () => Date,
  { warn, ...options }: SiteOptions & { warn?: (line: string) => void } = {},
): Promise<Commit> {
  const { signing = {} } = options;
  const { newest: current } = await readRunLog(storage, signing);
  if (!current) throw new Fault("ROLLBACK_REFUSED", `${storage.location}: nothing has been published yet`);
  requireKey(storage, current, signing);
  const wanted = await findCommit(storage, target, current);
  if (wanted.entry.snapshotId === current.entry.snapshotId) {
    if (!current.hold)
      throw new Fault(
        "ROLLBACK_REFUSED",
        `commit ${current.entry.commit} already has snapshot ${current.entry.snapshotId}`,
      );
    // A rollback that this run's key did not sign is made once more.
    if (!lacksSignature(current, signing)) {
      // An earlier run may have stopped after its commit, before it updated the public names.
      await updateMutableObjects(storage, options, { commit: current });
      return current;
    }
  }
  const withdrawn = withdraw(storage, current.entry, wanted.entry.commit + 1);
  await requireComplete(storage, current, wanted);
  // What it changes in the archive, unless that is too much, or the withdrawn snapshot is damaged, which may be why.
  const objects = objectWriter(storage);
  const recorded = await unless(ObjectError, () => recordBetween(storage, objects, current, wanted));
  if (recorded) await refuseCollected(storage, objects.written);
  const content: CommitContent = {
    formatVersion,
    entry: {
      ...wanted.entry,
      commit: current.entry.commit + 1,
      publishedAt: publicationTime(storage, current, { now, warn }),
      withdrawn,
    },
    manifest: wanted.manifest,
    changes: recorded?.ref ?? null,
    changeCounts: recorded?.counts ?? null,
    size: wanted.size,
    hold: true,
    previous: current.digest,
    tree: await treeBefore(storage, current),
  };
  await signExportsOf(storage, current, signing);
  await requireStillNewest(storage, current, signing);
  const commit = await appendCommit(storage, content, signerOf(signing));
  await updateMutableObjects(storage, options, { commit });
  return commit;
}

/** Throws ROLLBACK_REFUSED unless the store has every object of the snapshot. Protects these from collections. */
async function requireComplete(storage: Storage, current: Commit, commit: Commit): Promise<void> {
  const gone = `the snapshot of commit ${commit.entry.commit} is incomplete: the store no longer has all its objects`;
  try {
    const snapshot = await readPrevious(storage, commit);
    if (!snapshot.complete) throw new Fault("ROLLBACK_REFUSED", gone);
    await rewriteObjects(storage, current, snapshot);
  } catch (error) {
    if (error instanceof MissingObjectError) throw new Fault("ROLLBACK_REFUSED", gone, { cause: error });
    throw error;
  }
}

/**
 * Writes again every object that the current snapshot does not reach, so that a collection that is about to delete one
 * finds it changed. The manifest comes last, as in a publish run.
 */
async function rewriteObjects(storage: Storage, current: Commit, wanted: PreviousSnapshot): Promise<void> {
  const safe = (await readPreviousIfKept(storage, current))?.present ?? new Map();
  const again = async (key: string, ref: ObjectRef) => {
    await storage.put(key, await readObject(storage, key, ref));
  };
  const unsafe = [...wanted.present].filter(([key]) => !safe.has(key));
  await inParallel(unsafe, ([key, bytes]) => again(key, { hash: hashIn(key), bytes }));
  const objects = new Set(unsafe.map(([key]) => key));
  // The snapshot is complete, so its scores are there.
  const names = namesOfProtocols({ scores: wanted.manifest.scores! });
  await refuseCollected(storage, objects, names);
  const { manifest } = wanted.commit;
  const manifestKey = layout.manifest(manifest.hash);
  await again(manifestKey, manifest);
  await refuseCollected(storage, new Set([manifestKey]), names);
}
