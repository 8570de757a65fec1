import { type Commit, formatVersion, type Manifest, type Size } from "../../schemas/snapshot.ts";
import type { Changes, MarketChanges } from "../changes/summary.ts";
import type { OpenSources } from "../sources/sources.ts";
import { type CorruptObjectError, isLoss, type MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { publicationTime } from "../store/log/clock.ts";
import { appendCommit, type CommitContent } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { partsOf } from "../store/manifest.ts";
import { referTo, sourceObjects } from "../store/objects.ts";
import { newestForRun, requireStillNewest } from "../trust/log/run-log.ts";
import { isSigned, signerOf } from "../trust/signing.ts";
import { type Before, type BuildOptions, buildSnapshot } from "./build-snapshot.ts";
import type { Witnessed } from "./log-checkpoint.ts";
import { finishRun, type SiteOptions, updateMutableObjects } from "./mutable-objects.ts";
import type { ObjectWriter } from "./object-writer.ts";
import { PreviousSnapshot } from "./previous-snapshot.ts";
import { treeBefore } from "./public-log.ts";
import { namesOfProtocols } from "./public-names.ts";
import { type ReadSources, readSources } from "./read-sources.ts";
import { planRun } from "./run-plan.ts";
import { objectsByHash } from "./score-objects.ts";

/** A rollback puts publishing on hold; otherwise the next run would undo it. */
export class PublishingOnHoldError extends Error {
  override readonly name = "PublishingOnHoldError";
}

/** How often a run begins anew because it met a damaged object; each time it reads the sources again. */
const maxTries = 16;

/** Options of a publish run. */
export interface PublishOptions extends SiteOptions, BuildOptions {
  /** The run closes what it opens. */
  sources: OpenSources;
  /** A local folder for the external sort. A new or changed market of 3.3 kB needs about 1 kB there. */
  temporaryDirectory: string;
  now: () => Date;
  /** Publishes although a rollback put publishing on hold. */
  resume?: boolean;
  /** Told of what the operator should know before the commit is made. */
  warn?: (line: string) => void;
}

/** The result of a publish run. */
export interface PublishReport {
  outcome: "published" | "unchanged" | "dry-run";
  /** Of a dry run: whether a run that writes would make a commit. */
  wouldCommit?: boolean;
  /** The current commit after the run; 0 when there is none. */
  commit: number;
  snapshotId: string;
  counts: Manifest["counts"];
  /** Compared with the snapshot that was current before; null when what that takes of it is gone or damaged. */
  changes: Changes | null;
  /** Of what the run makes, or would make. `lost`: the current commit was signed, and that is not. */
  signature: "signed" | "unsigned" | "lost";
  /** Segments of the snapshot before that lacked a column for a filter, and were made anew. */
  reindexed: number;
  /** Objects of the snapshot that were uploaded, those that the store had, and both: the size of the commit. */
  uploaded: Size;
  unchanged: Size;
  total: Size;
  /** What was uploaded beside the snapshot: the record of what it changes. */
  changeRecord: Size;
  /** Of each witness of the publisher's policy. */
  witnessed: Witnessed[];
}

/**
 * Builds a snapshot and commits it. Objects are written in this order: pages, segments and scores, manifest, commit,
 * head.json, public names. Sources with the content of the current snapshot make no new commit.
 * Throws SourceRefusal, GuardRefusal, PublishingOnHoldError, UntrustedPredecessorError, CommitLostError,
 * CollectedMeanwhileError, CommitUnknownError, CorruptObjectError or StorageError. Readers then still see the previous
 * snapshot; after a CommitUnknownError they may see either.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const { storage, resume = false, signing = {} } = options;
  const current = await newestForRun(storage, signing);
  if (current?.hold && !resume) {
    // The rollback may have been interrupted before it updated the public names.
    if (!options.dryRun && signing.over !== current.commit)
      await updateMutableObjects(storage, options).catch((error) => {
        // Only a run that goes on makes anew what is lost.
        if (!isLoss(error)) throw error;
        options.warn?.(error.message);
      });
    const detail =
      `commit ${current.commit} is a rollback, which puts publishing on hold; publish with --resume to end ` +
      "that";
    throw new PublishingOnHoldError(`${storage.location}: ${detail}`);
  }
  const faulty = new Set(options.faulty);
  const damaged = ({ key, message }: CorruptObjectError | MissingObjectError) => {
    faulty.add(key);
    options.warn?.(`${message}; it is made again from the sources`);
  };
  for (let tries = 1; ; tries += 1) {
    // Without its manifest nothing can be reused, and every object is written again.
    const previous = current && (await PreviousSnapshot.readIfKept(storage, current, faulty, damaged));
    try {
      return await publishAfter(options, { current, previous });
    } catch (error) {
      if (tries === maxTries || !previous?.isHurtBy(error)) throw error;
      damaged(error);
    }
  }
}

/** Reads the sources and publishes them. */
async function publishAfter(options: PublishOptions, before: Before): Promise<PublishReport> {
  const { sources: open, temporaryDirectory, progress = () => {} } = options;
  const read = await readSources({ open, previous: before.previous, temporaryDirectory, progress });
  try {
    return await publishRead(options, read, before);
  } finally {
    await read.close();
  }
}

/** Builds a snapshot from what was read, plans what becomes of it, and does that. */
async function publishRead(
  options: PublishOptions,
  read: ReadSources,
  before: Before,
): Promise<PublishReport> {
  const { storage, now, dryRun = false, signing = {} } = options;
  const { current, previous } = before;
  const { manifest, stored, objects, records, changes, finishRecord } = await buildSnapshot(
    options,
    read,
    before,
  );
  const ref = referTo(stored);
  const manifestKey = layout.manifest(ref.hash);
  const { kind, reasons, keepsManifest } = planRun({
    current,
    previous,
    built: { snapshotId: manifest.snapshotId, manifestHash: ref.hash },
    signed: current !== undefined && isSigned(current, signing),
    dryRun,
  });
  if (!keepsManifest) await objects.writeHeld();
  const record = reasons.length > 0 ? await finishRecord() : null;
  // Objects of the current snapshot are safe. A manifest must not be put when a collection is deleting its objects.
  if (kind === "commit")
    await refuseCollected(storage, objects.written.union(records.written), namesOfProtocols(manifest));
  if (keepsManifest) keepManifest(objects, previous!);
  else await objects.write(manifestKey, stored);

  let commit = current?.commit ?? 0;
  if (kind === "commit") {
    await refuseCollected(storage, new Set([manifestKey]));
    await requireStillNewest(storage, current, signing);
    const content = nextCommit(current, manifest, {
      manifest: ref,
      changes: record,
      changeCounts: changes ? countsOf(changes.markets) : null,
      size: objects.total,
      publishedAt: publicationTime(storage, current, options),
      tree: await treeBefore(storage, current),
    });
    ({ commit } = await appendCommit(storage, content, signerOf(signing)));
  }
  const outcome = outcomes[kind];
  const witnessed =
    outcome === "dry-run"
      ? []
      : await finishRun(storage, objectsByHash(read.scores), outcome, now(), options);
  const { uploaded, unchanged, total } = objects;
  return {
    outcome,
    ...(dryRun && { wouldCommit: reasons.length > 0 }),
    commit,
    snapshotId: manifest.snapshotId,
    counts: manifest.counts,
    changes: changes ?? null,
    signature: signing.key ? "signed" : current?.note === undefined ? "unsigned" : "lost",
    reindexed: previous?.unindexed ?? 0,
    uploaded,
    unchanged,
    total,
    changeRecord: records.total,
    witnessed,
  };
}

const outcomes = { same: "unchanged", commit: "published", "dry-run": "dry-run" } as const;

/** Counts the manifest, its parts and the source files that the current commit names as objects that stay. */
function keepManifest(objects: ObjectWriter, { commit, manifest }: PreviousSnapshot): void {
  for (const [key, { bytes }] of [...partsOf(manifest), ...sourceObjects(manifest)]) objects.keep(key, bytes);
  objects.keep(layout.manifest(commit.manifest.hash), commit.manifest.bytes);
}

const countsOf = ({ added, changed, removed }: MarketChanges) => ({ added, changed, removed });

/** The commit after `current`, which makes this manifest current. */
function nextCommit(
  current: Commit | undefined,
  { feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot, counts }: Manifest,
  own: Pick<CommitContent, "manifest" | "changes" | "changeCounts" | "size" | "publishedAt" | "tree">,
): CommitContent {
  return {
    formatVersion,
    commit: (current?.commit ?? 0) + 1,
    feedVersion,
    snapshotId,
    archiveRoot,
    scoresRoot,
    indexRoot,
    manifest: own.manifest,
    changes: own.changes,
    changeCounts: own.changeCounts,
    counts,
    size: own.size,
    publishedAt: own.publishedAt,
    hold: false,
    withdrawn: current?.withdrawn ?? [],
    previous: current?.digest ?? null,
    tree: own.tree,
  };
}
