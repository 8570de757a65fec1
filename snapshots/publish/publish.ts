import { feedVersion } from "../../schemas/market.ts";
import {
  type Commit,
  formatVersion,
  type Manifest,
  maxProtocols,
  maxSegments,
  type ObjectRef,
  type Size,
  type SourceFiles,
} from "../../schemas/snapshot.ts";
import { protocolChanges } from "../changes/protocols.ts";
import { ChangeRecordWriter, maxRecordLines } from "../changes/record.ts";
import { type Changes, DetailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import { indexRootOf, scoresRootOf, snapshotIdOf } from "../format/snapshot-id.ts";
import { rootOver } from "../format/tree.ts";
import type { OpenSources, Sources } from "../sources/sources.ts";
import type { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { publicationTime } from "../store/log/clock.ts";
import { appendCommit, type CommitContent } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { divideManifest, partsOf } from "../store/manifest.ts";
import { readObject, sourceObjects } from "../store/objects.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import { newestForRun, requireStillNewest } from "../trust/run-log.ts";
import { isSigned, signerOf } from "../trust/signing.ts";
import { ArchiveWriter, type WrittenArchive } from "./archive-writer.ts";
import { type Allowance, type ArchiveDifference, checkGuards, requireAtMost } from "./guards.ts";
import type { Witnessed } from "./log-checkpoint.ts";
import { mergeMarkets } from "./merge-markets.ts";
import { finishRun, type SiteOptions, updateMutableObjects } from "./mutable-objects.ts";
import { ObjectWriter } from "./object-writer.ts";
import { PreviousSnapshot } from "./previous-snapshot.ts";
import { treeBefore } from "./public-log.ts";
import { namesOfProtocols } from "./public-names.ts";
import { type ReadSources, readSources } from "./read-sources.ts";
import { planRun } from "./run-plan.ts";
import { objectsByHash, referTo, type ScoreObjects, writeScores } from "./score-objects.ts";

/** A rollback puts publishing on hold; otherwise the next run would undo it. */
export class PublishingOnHoldError extends Error {
  override readonly name = "PublishingOnHoldError";
}

/** How often a run begins anew because it met a damaged object; each time it reads the sources again. */
const maxTries = 16;

/** Options of a publish run. */
export interface PublishOptions extends SiteOptions {
  /** The run closes what it opens. */
  sources: OpenSources;
  storage: Storage;
  /** A local folder for the external sort. A new or changed market of 3.3 kB needs about 1 kB there. */
  temporaryDirectory: string;
  now: () => Date;
  /** Does everything except writing to the store. */
  dryRun?: boolean;
  /** Publishes although a rollback put publishing on hold. */
  resume?: boolean;
  /** Differences that the operator allows the guards to let pass. */
  allow?: Allowance;
  /** Told of what the operator should know before the commit is made. */
  warn?: (line: string) => void;
  /** Called as the work advances; `of` is the value of `done` at the end of the step. */
  progress?: (step: string, done: number, of: number) => void;
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
  /**
   * Of the commit that is current after the run, or would be. `lost`: the one before was signed, and this one is not.
   */
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
    if (!options.dryRun && signing.over !== current.commit) await updateMutableObjects(storage, options);
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

/** The commit that is current, and its snapshot unless the manifest is gone or damaged. */
interface Before {
  current: Commit | undefined;
  previous: PreviousSnapshot | undefined;
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
  const { manifest, stored, objects, records, changes, finishRecord } = await build(options, read, before);
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
    signature: signing.key ? "signed" : current?.checkpoint === undefined ? "unsigned" : "lost",
    reindexed: previous?.unindexed ?? 0,
    uploaded,
    unchanged,
    total,
    changeRecord: records.total,
    witnessed,
  };
}

const outcomes = { same: "unchanged", commit: "published", "dry-run": "dry-run" } as const;

/** Writes pages, segments and scores of what was read, and holds what only a new commit may need. */
async function build(options: PublishOptions, read: ReadSources, before: Before) {
  const { storage, dryRun = false } = options;
  const { current, previous } = before;
  requireAtMost("protocol_scores", read.scores.records.size, maxProtocols, "protocols");
  const present = new Set(previous?.present.keys());
  if (previous) present.add(layout.manifest(previous.commit.manifest.hash));
  const objects = new ObjectWriter(storage, present, dryRun);
  // Not part of the snapshot, so not counted in its size either.
  const records = new ObjectWriter(storage, new Set(), dryRun);
  const record = new ChangeRecordWriter(records);
  const {
    changed: markets,
    recorded,
    ...archive
  } = await writeArchive(options, objects, before, read, record);
  const { manifest, stored } = await writeManifest(objects, read, archive);

  const protocolsBefore = current ? previous?.manifest.scores.records : {};
  const protocolReader = recordReader(storage, read.scores);
  const changes = protocolsBefore &&
    markets && {
      markets,
      protocols: await protocolChanges(protocolsBefore, manifest.scores.records, protocolReader),
    };
  const finishRecord = async () => {
    if (!previous || !markets || !recorded) return null;
    const { snapshotId: since } = previous.manifest;
    return record.finish({ since, until: manifest.snapshotId, counts: markets });
  };
  return { manifest, stored, objects, records, changes, finishRecord };
}

/** Counts the manifest, its parts and the source files that the current commit names as objects that stay. */
function keepManifest(objects: ObjectWriter, { commit, manifest }: PreviousSnapshot): void {
  for (const [key, { bytes }] of [...partsOf(manifest), ...sourceObjects(manifest)]) objects.keep(key, bytes);
  objects.keep(layout.manifest(commit.manifest.hash), commit.manifest.bytes);
}

async function writeArchive(
  { storage, dryRun, progress = () => {}, allow = {} }: PublishOptions,
  objects: ObjectWriter,
  { current, previous }: Before,
  { sources, scores, markets: total, kept, sameOrigins, sort, difference }: ReadSources,
  record: ChangeRecordWriter,
): Promise<WrittenArchive & { changed: MarketChanges | undefined; recorded: boolean }> {
  const origins = { files: sources.files.map(({ hash }) => hash), kept, sameOrigins };
  const writer = new ArchiveWriter(objects, previous, origins, (done) =>
    progress("writing pages", done, total),
  );
  try {
    const compared = difference && (await difference.markets());
    if (current) {
      const after = { markets: total, slugs: new Set(scores.records.keys()) };
      const slugs = previous && Object.keys(previous.manifest.scores.records);
      checkGuards({ counts: current.counts, slugs }, compared?.judged, after, allow);
    }
    // Every row has passed validation and the guards. Nothing is written to the store before this point.
    if (!dryRun) {
      await probeConditionalWrites(storage);
      await storage.removeLeftovers?.();
    }
    const details =
      compared && isRecordable(compared) ? new DetailCount(compared.sides, compared.found) : undefined;
    await mergeMarkets(
      writer,
      previous,
      kept,
      sort.sorted(),
      details &&
        (async (rows) => {
          details.add(rows);
          await record.add(rows);
        }),
    );
    const written = await writer.finish();
    if (written.markets !== total)
      throw new Error(`${total} markets were read, but ${written.markets} were written`);
    const recorded = details !== undefined;
    if (!compared) return { ...written, changed: allNew(total), recorded };
    // What is damaged would count as new.
    if (!compared.whole) return { ...written, changed: undefined, recorded };
    const summary = summaryOf(compared.sides, compared.found);
    return { ...written, changed: { ...summary, details: details?.details ?? null }, recorded };
  } finally {
    await writer.close();
  }
}

const countsOf = ({ added, changed, removed }: MarketChanges) => ({ added, changed, removed });

/** Whether a change record can be made, and is not too large. */
function isRecordable({ whole, found: { added, changed, removed } }: ArchiveDifference): boolean {
  return whole && added.length + 2 * changed.after.length + removed.length <= maxRecordLines;
}

/** What the first snapshot changes, or one whose predecessor is gone. */
function allNew(added: number): MarketChanges {
  return { added, changed: 0, removed: 0, first: { added: [], changed: [], removed: [] }, details: null };
}

async function writeManifest(
  objects: ObjectWriter,
  { sources, scores, fileRows }: ReadSources,
  { segments, pages, markets, newestResolvedAt }: WrittenArchive,
): Promise<{ manifest: Manifest; stored: Buffer }> {
  requireAtMost("markets", segments.length, maxSegments, "segments");
  const scoreRefs = await writeScores(objects, scores);
  const files = holdSourceFiles(objects, sources.files, fileRows);
  const counts = { markets, protocols: scores.records.size, segments: segments.length, pages };
  const roots = {
    archiveRoot: rootOver("archive", segments).toString("hex"),
    scoresRoot: scoresRootOf(scoreRefs),
  };
  const { parts, ...manifest } = divideManifest({
    formatVersion,
    feedVersion,
    snapshotId: snapshotIdOf({ feedVersion, counts, ...roots }),
    ...roots,
    indexRoot: indexRootOf(segments),
    counts,
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    rowDigests: sources.rowDigests,
    sources: files,
    segments,
    scores: scoreRefs,
  });
  for (const [key, bytes] of parts) objects.hold(key, bytes);
  return manifest;
}

/** Tells which files the markets were made from, by hash: the order of their names may change, and does not matter. */
function holdSourceFiles(
  objects: ObjectWriter,
  files: Sources["files"],
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
  objects.hold(layout.sourceFilesOf(ref.hash), bytes);
  return ref;
}

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

/** Reads records of protocols: those of this run from memory, the current snapshot's from the store. */
function recordReader(storage: Storage, scores: ScoreObjects) {
  const inMemory = objectsByHash(scores);
  return async (ref: ObjectRef) =>
    inMemory.get(ref.hash) ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
}
