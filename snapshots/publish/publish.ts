import { Fault } from "../../schemas/errors.ts";
import {
  type Commit,
  type CommitEntry,
  type Manifest,
  maxSegments,
  type NamedObject,
  type ObjectRef,
  type Size,
  type SourceFiles,
} from "../../schemas/store/stored-objects.ts";
import { feedVersion, formatVersion } from "../../schemas/versions.ts";
import { type Changes, type MarketChanges, protocolChanges } from "../changes/summary.ts";
import { signExportsOf } from "../export/export-records.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import type { OpenSources } from "../sources/sources.ts";
import { type CorruptObjectError, isLoss, type MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { appendCommit, type CommitContent, publicationTime } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { divideManifest, type SnapshotEntry, snapshotEntryOf } from "../store/manifest.ts";
import { namedBy, readObject, referTo } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import {
  lacksSignature,
  type RunLog,
  readRunLog,
  requireKey,
  requireStillNewest,
  signerOf,
} from "../trust/log/believe.ts";
import { requireAtMost } from "./guards.ts";
import { type BuildOptions, type MadeArchive, makeArchive, prepareStore } from "./make-archive.ts";
import { mendChanges } from "./mend-changes.ts";
import type { ObjectWriter } from "./object-writer.ts";
import { type Before, PreviousSnapshot } from "./previous-snapshot.ts";
import { treeBefore, type Witnessed } from "./public/log.ts";
import {
  finishRun,
  namesOfProtocols,
  type SiteOptions,
  updateMutableObjects,
} from "./public/mutable-objects.ts";
import { readSources } from "./read-sources.ts";
import { planRun } from "./run-plan.ts";
import { objectsByHash, type ScoreObjects, writeScores } from "./score-objects.ts";

/** How often a run begins anew because it met a damaged object. Each time it reads the sources again. */
const maxTries = 16;

export interface PublishOptions extends SiteOptions, BuildOptions {
  /** The run closes what it opens. */
  sources: OpenSources;
  /** A local folder for the external sort. A new or changed market of 3.3 kB needs about 1 kB there. */
  temporaryDirectory: string;
  now: () => Date;
  /** Publishes although a rollback put publishing on hold. */
  resume?: boolean;
}

/**
 * Builds a snapshot and commits it. Objects are written in this order: pages, segments and scores, manifest, commit,
 * public names. Sources with the content of the current snapshot make no new commit. When this throws, readers still
 * see the previous snapshot; after COMMIT_UNKNOWN they may see either.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const log = await beginRun(options);
  return overDamage({ ...options, storage: log.storage }, log.newest, (previous) =>
    publishAfter(options, { log, previous }),
  );
}

async function publishAfter(options: PublishOptions, before: Before): Promise<PublishReport> {
  const { sources: open, temporaryDirectory, progress = () => {} } = options;
  const read = await readSources({ open, previous: before.previous, temporaryDirectory, progress });
  try {
    return await finishPublish(options, await makeArchive(options, read, before), before);
  } finally {
    await read.close();
  }
}

/**
 * Reads the log that a run goes on from; undefined `newest` means that it makes the first commit. While publishing is
 * on hold, ends what an interrupted rollback has begun, and refuses the run.
 */
export async function beginRun(options: PublishOptions): Promise<RunLog> {
  const { storage, resume = false, signing = {} } = options;
  const log = await readRunLog(storage, signing);
  const { newest: current } = log;
  if (!options.dryRun) requireKey(storage, current, signing);
  if (!current?.hold || resume) return log;
  // The rollback may have been interrupted before it updated the public names.
  if (!options.dryRun && signing.over !== current.entry.commit)
    await updateMutableObjects(storage, options, { commit: current, log }).catch((error) => {
      // Only a run that goes on makes lost objects anew.
      if (!isLoss(error)) throw error;
      options.warn?.(error.message);
    });
  const detail =
    `commit ${current.entry.commit} is a rollback, which puts publishing on hold; publish with --resume to end ` +
    "that";
  throw new Fault("PUBLISHING_ON_HOLD", `${storage.location}: ${detail}`);
}

/** Does work over the current snapshot, and repeats it without those objects that turn out damaged meanwhile. */
export async function overDamage<T>(
  options: Pick<PublishOptions, "storage" | "faulty" | "warn">,
  current: Commit | undefined,
  work: (previous: PreviousSnapshot | undefined) => Promise<T>,
): Promise<T> {
  const faulty = new Set(options.faulty);
  const damaged = ({ key, message }: CorruptObjectError | MissingObjectError) => {
    faulty.add(key);
    options.warn?.(`${message}; it is made again from the sources`);
  };
  for (let tries = 1; ; tries += 1) {
    // Without its manifest nothing can be reused, and every object is written again.
    const previous =
      current && (await PreviousSnapshot.readIfKept(options.storage, current, faulty, damaged));
    try {
      return await work(previous);
    } catch (error) {
      if (tries === maxTries || !previous?.isHurtBy(error)) throw error;
      damaged(error);
    }
  }
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
  options: PublishOptions,
  made: MadeArchive,
  { log, previous }: Before,
): Promise<PublishReport> {
  const { storage, now, dryRun = false, signing = {} } = options;
  const { newest: current } = log;
  const { objects, scores, changes: archiveChanges } = made;
  const { manifest, stored, entry } = await writeScoresAndBuildManifest(made);
  const changes = await changesOf(storage, made, manifest, { log, previous });
  const ref = referTo(stored);
  const manifestKey = layout.manifest(ref.hash);
  const { kind, reasons, keepsManifest } = planRun({
    current,
    previous,
    built: { snapshotId: entry.snapshotId, manifestHash: ref.hash },
    signed: current !== undefined && !lacksSignature(current, signing),
    dryRun,
  });
  if (!keepsManifest) await objects.writeHeld();
  const record =
    changes && reasons.length > 0
      ? await archiveChanges.finishRecord(previous?.commit.entry.snapshotId, entry.snapshotId)
      : null;
  const names = namesOfProtocols(manifest);
  // Objects of the current snapshot are safe. A manifest must not be put while a collection is deleting its objects.
  if (kind === "commit")
    await refuseCollected(storage, objects.written.union(archiveChanges.objects.written), names);
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
        ...entry,
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
  let witnessed: Witnessed[] = [];
  if (newest && outcome !== "dry-run") {
    const atHand = { commit: newest, log, manifest, objects: objectsByHash(scores) };
    witnessed = await finishRun(storage, atHand, outcome, now(), options);
    await mendChanges(kind === "same" ? previous?.listed : undefined, newest, options);
  }
  const { uploaded, unchanged, total } = objects;
  return {
    outcome,
    ...(dryRun && { wouldCommit: reasons.length > 0 }),
    commit: newest?.entry.commit ?? 0,
    snapshotId: entry.snapshotId,
    counts: { ...entry.counts, segments: made.archive.segments.length, pages: made.archive.pages },
    changes: changes ?? null,
    signature: signing.key ? "signed" : current?.note === undefined ? "unsigned" : "lost",
    reindexed: previous?.unindexed ?? 0,
    uploaded,
    unchanged,
    total,
    changeRecord: archiveChanges.objects.total,
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
  { log, previous }: Before,
): Promise<Changes | undefined> {
  const before = log.newest ? previous?.manifest.scores?.records : {};
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

/** Writes the scores and builds the manifest. Holds the manifest's parts until it is written. */
async function writeScoresAndBuildManifest({
  objects,
  sources,
  scores,
  fileRows,
  archive: { segments, newestResolvedAt },
}: MadeArchive): Promise<{ manifest: Manifest; stored: Buffer; entry: SnapshotEntry }> {
  requireAtMost(nameOfAll(sources.files, "markets"), segments.length, maxSegments, "segments");
  const scoreRefs = await writeScores(objects, scores);
  const files = holdSourceFiles(objects, sources.files, fileRows);
  const { parts, ...manifest } = divideManifest({
    formatVersion,
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    rowDigests: sources.rowDigests,
    sources: files,
    segments,
    scores: scoreRefs,
  });
  for (const [key, bytes] of parts) objects.hold(key, bytes);
  return { ...manifest, entry: snapshotEntryOf(manifest.manifest, feedVersion) };
}

/** Tells which files the markets were made from, by hash: the order of their names may change, and does not matter. */
function holdSourceFiles(
  objects: ObjectWriter,
  files: MadeArchive["sources"]["files"],
  fileRows: readonly number[],
): ObjectRef {
  const refs = files.map(({ name: _, unchanged: __, ...file }, index) => ({
    ...file,
    rows: fileRows[index]!,
  }));
  refs.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const content: SourceFiles = { formatVersion, files: refs };
  const bytes = Buffer.from(JSON.stringify(content));
  const ref = referTo(bytes);
  objects.hold(layout.sourceFiles(ref.hash), bytes);
  return ref;
}
