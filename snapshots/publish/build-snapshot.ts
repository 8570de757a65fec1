import { feedVersion } from "../../schemas/market.ts";
import {
  type Commit,
  formatVersion,
  type Manifest,
  maxProtocols,
  maxSegments,
  type ObjectRef,
  type SourceFiles,
} from "../../schemas/snapshot.ts";
import { protocolChanges } from "../changes/protocols.ts";
import { ChangeRecordWriter, maxRecordLines } from "../changes/record.ts";
import { DetailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import { indexRootOf, scoresRootOf, snapshotIdOf } from "../format/snapshot-id.ts";
import { rootOver } from "../format/tree.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import type { Sources } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import { divideManifest } from "../store/manifest.ts";
import { readObject, referTo } from "../store/objects.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import { ArchiveWriter, type WrittenArchive } from "./archive-writer.ts";
import { type Allowance, type ArchiveDifference, checkGuards, requireAtMost } from "./guards.ts";
import { mergeMarkets } from "./merge-markets.ts";
import { ObjectWriter } from "./object-writer.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";
import type { ReadSources } from "./read-sources.ts";
import { objectsByHash, type ScoreObjects, writeScores } from "./score-objects.ts";

/** How a snapshot is built. */
export interface BuildOptions {
  storage: Storage;
  /** Does everything except writing to the store. */
  dryRun?: boolean;
  /** Differences that the operator allows the guards to let pass. */
  allow?: Allowance;
  /** Called as the work advances; `of` is the value of `done` at the end of the step. */
  progress?: (step: string, done: number, of: number) => void;
}

/** The commit that is current, and its snapshot unless the manifest is gone or damaged. */
export interface Before {
  current: Commit | undefined;
  previous: PreviousSnapshot | undefined;
}

/** Writes pages, segments and scores of what was read, and holds what only a new commit may need. */
export async function buildSnapshot(options: BuildOptions, read: ReadSources, before: Before) {
  const { storage, dryRun = false } = options;
  const { current, previous } = before;
  const scoresName = nameOfAll(read.sources.scoreFiles, "protocol_scores");
  requireAtMost(scoresName, read.scores.records.size, maxProtocols, "protocols");
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

  const protocolsBefore = current ? previous?.manifest.scores?.records : {};
  const protocolReader = recordReader(storage, read.scores);
  const changes = protocolsBefore &&
    markets && {
      markets,
      protocols: await protocolChanges(protocolsBefore, manifest.scores.records, protocolReader),
    };
  const finishRecord = async () => {
    if (!previous || !changes || !recorded) return null;
    const { snapshotId: since } = previous.manifest;
    return record.finish({ since, until: manifest.snapshotId, counts: changes.markets });
  };
  return { manifest, stored, objects, records, changes, finishRecord };
}

async function writeArchive(
  { storage, dryRun, progress = () => {}, allow = {} }: BuildOptions,
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
      const records = previous?.manifest.scores?.records;
      const slugs = records && Object.keys(records);
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
  requireAtMost(nameOfAll(sources.files, "markets"), segments.length, maxSegments, "segments");
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

/** Reads records of protocols: those of this run from memory, the current snapshot's from the store. */
function recordReader(storage: Storage, scores: ScoreObjects) {
  const inMemory = objectsByHash(scores);
  return async (ref: ObjectRef) =>
    inMemory.get(ref.hash) ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
}
