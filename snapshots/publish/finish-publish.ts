import {
  type CommitEntry,
  formatVersion,
  type Manifest,
  type NamedObject,
  type Size,
} from "../../schemas/store/snapshot.ts";
import type { Changes, MarketChanges } from "../changes/summary.ts";
import { protocolChanges } from "../changes/summary.ts";
import { signExportsOf } from "../export/export-records.ts";
import { layout } from "../store/layout.ts";
import { publicationTime } from "../store/log/clock.ts";
import { appendCommit, type CommitContent } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { namedBy, readObject, referTo } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { requireStillNewest } from "../trust/log/believe.ts";
import { isSigned, signerOf } from "../trust/signing.ts";
import { mendChanges } from "./archive-changes.ts";
import { buildManifest } from "./build-manifest.ts";
import { type Before, type BuildOptions, type MadeArchive, prepareStore } from "./make-archive.ts";
import type { ObjectWriter } from "./object-writer.ts";
import type { PreviousSnapshot } from "./previous/snapshot.ts";
import { treeBefore, type Witnessed } from "./public/log.ts";
import { finishRun, type SiteOptions } from "./public/mutable-objects.ts";
import { namesOfProtocols } from "./public/names.ts";
import { planRun } from "./run-plan.ts";
import { objectsByHash, type ScoreObjects } from "./score-objects.ts";

export interface FinishOptions extends SiteOptions, BuildOptions {
  now: () => Date;
}

export interface PublishReport {
  outcome: "published" | "unchanged" | "dry-run";
  /** Only in a dry run: whether a run that writes would make a commit. */
  wouldCommit?: boolean;
  /** After the run; 0 when there is no commit. */
  commit: number;
  snapshotId: string;
  counts: CommitEntry["counts"] & Record<"segments" | "pages", number>;
  /** Compared with the snapshot that was current before; null when a part of that is gone or damaged. */
  changes: Changes | null;
  /** Of what the run makes, or would make. "lost": the current commit was signed, and the new one is not. */
  signature: "signed" | "unsigned" | "lost";
  /** Segments of the snapshot before that lacked a column for a filter, and were made anew. */
  reindexed: number;
  /** Objects of the snapshot: uploaded by this run, there already, and both, which is the size of the commit. */
  uploaded: Size;
  unchanged: Size;
  total: Size;
  /** Uploaded beside the snapshot: the record of what it changes. */
  changeRecord: Size;
  /** What each witness of the publisher's policy answered. */
  witnessed: Witnessed[];
}

/** Builds the snapshot of an archive, decides what becomes of it, and does that. */
export async function finishPublish(
  options: FinishOptions,
  made: MadeArchive,
  { current, previous, log }: Before,
): Promise<PublishReport> {
  const { storage, now, dryRun = false, signing = {} } = options;
  const { objects, scores, changes: archiveChanges } = made;
  const { manifest, stored, told } = await buildManifest(made);
  const changes = await changesOf(storage, made, manifest, { current, previous });
  const ref = referTo(stored);
  const manifestKey = layout.manifest(ref.hash);
  const { kind, reasons, keepsManifest } = planRun({
    current,
    previous,
    built: { snapshotId: told.snapshotId, manifestHash: ref.hash },
    signed: current !== undefined && isSigned(current, signing),
    dryRun,
  });
  if (!keepsManifest) await objects.writeHeld();
  const record =
    changes && reasons.length > 0
      ? await archiveChanges.finishRecord(previous?.commit.entry.snapshotId, told.snapshotId)
      : null;
  const names = namesOfProtocols(manifest);
  // Objects of the current snapshot are safe. A manifest must not be put while a collection is deleting its objects.
  if (kind === "commit") await refuseCollected(storage, objects.written.union(archiveChanges.written), names);
  if (keepsManifest) keepManifest(objects, previous!);
  else await objects.write(manifestKey, stored);

  let newest = current;
  if (kind === "commit") {
    // Nothing was written yet, so probe now; the write also reveals a directory's clock.
    if (objects.written.size === 0) await prepareStore(storage);
    // Public names are written after the commit, so until then nothing but this check keeps them.
    await refuseCollected(storage, new Set([manifestKey]), names);
    if (current) await signExportsOf(storage, current, signing);
    await requireStillNewest(storage, current, signing);
    const content: CommitContent = {
      formatVersion,
      entry: {
        commit: (current?.entry.commit ?? 0) + 1,
        ...told,
        publishedAt: publicationTime(storage, current, options),
        withdrawn: current?.entry.withdrawn ?? [],
      },
      manifest: ref,
      changes: record,
      changeCounts: changes ? countsOf(changes.markets) : null,
      size: objects.total,
      hold: false,
      previous: current?.digest ?? null,
      tree: await treeBefore(storage, current),
    };
    newest = await appendCommit(storage, content, signerOf(signing));
  }
  const outcome = outcomes[kind];
  const atHand = newest && { objects: objectsByHash(scores), commit: newest, manifest };
  const witnessed =
    !atHand || outcome === "dry-run"
      ? []
      : await finishRun(storage, kind === "same" ? { ...atHand, log } : atHand, outcome, now(), options);
  if (newest && !dryRun) await mendChanges(kind === "same" ? previous?.listed : undefined, newest, options);
  const { uploaded, unchanged, total } = objects;
  return {
    outcome,
    ...(dryRun && { wouldCommit: reasons.length > 0 }),
    commit: newest?.entry.commit ?? 0,
    snapshotId: told.snapshotId,
    counts: { ...told.counts, segments: made.archive.segments.length, pages: made.archive.pages },
    changes: changes ?? null,
    signature: signing.key ? "signed" : current?.note === undefined ? "unsigned" : "lost",
    reindexed: previous?.unindexed ?? 0,
    uploaded,
    unchanged,
    total,
    changeRecord: archiveChanges.size,
    witnessed,
  };
}

const outcomes = { same: "unchanged", commit: "published", "dry-run": "dry-run" } as const;

/** Counts the current commit's manifest, and what it names, as objects that stay. The run has counted rows itself. */
function keepManifest(objects: ObjectWriter, { commit, manifest, present }: PreviousSnapshot): void {
  const named = namedBy(manifest);
  for (const [key, bytes] of present) if (named.has(key) && !layout.rows.has(key)) objects.keep(key, bytes);
  objects.keep(layout.manifest(commit.manifest.hash), commit.manifest.bytes);
}

/** Undefined when a part of the current snapshot that the comparison needs is gone or damaged. */
async function changesOf(
  storage: Storage,
  { changes: { markets }, scores }: MadeArchive,
  { scores: { records } }: Manifest,
  { current, previous }: Before,
): Promise<Changes | undefined> {
  const before = current ? previous?.manifest.scores?.records : {};
  if (!before || !markets) return undefined;
  return { markets, protocols: await protocolChanges(before, records, recordReader(storage, scores)) };
}

/** Takes records of this run from memory, and those of the current snapshot from the store. */
function recordReader(storage: Storage, scores: ScoreObjects) {
  const inMemory = objectsByHash(scores);
  return async (ref: NamedObject) =>
    inMemory.get(ref.hash) ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
}

const countsOf = ({ added, changed, removed }: MarketChanges) => ({ added, changed, removed });
