import { feedVersion } from "../../schemas/envelopes.ts";
import { type Commit, formatVersion, type Manifest, type Size } from "../../schemas/snapshot.ts";
import { snapshotIdOf } from "../format/snapshot-id.ts";
import type { Sources } from "../sources/sources.ts";
import { appendCommit, newestCommit } from "../store/commits.ts";
import { probeConditionalWrites } from "../store/conditional-writes.ts";
import { refuseCollected } from "../store/gc-records.ts";
import { layout } from "../store/layout.ts";
import { MissingObjectError } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { ArchiveWriter, type WrittenArchive } from "./archive-writer.ts";
import { type ChangeCounts, type Changes, protocolChanges } from "./change-counts.ts";
import { ExternalSort } from "./external-sort.ts";
import { type Allowance, checkGuards, DifferenceCount } from "./guards.ts";
import { mergeMarkets } from "./merge-markets.ts";
import { finishRun, type SiteOptions, updateMutableObjects } from "./mutable-objects.ts";
import { ObjectWriter } from "./object-writer.ts";
import { PreviousSnapshot } from "./previous-snapshot.ts";
import { publicNames } from "./public-names.ts";
import { publicObjects, referTo, renderScores, type ScoreObjects, writeScores } from "./score-objects.ts";

/** Markets per bucket of the external sort: some 50 MB of JSON text. */
const bucketMarkets = 16_384;

/** A rollback holds publishing, or the next run would undo it. */
export class PublishingOnHoldError extends Error {
  override readonly name = "PublishingOnHoldError";
}

/** What a publish run is given. */
export interface PublishOptions extends SiteOptions {
  sources: Sources;
  storage: Storage;
  /** A local folder for the external sort; it takes as much as the JSON text of the markets that are new or changed. */
  temporaryDirectory: string;
  now: () => Date;
  /** Does everything but writing. */
  dryRun?: boolean;
  /** Keys of objects that are known not to hold what they should: they are made anew, whatever the store lists. */
  faulty?: ReadonlySet<string>;
  /** Ends a hold. */
  resume?: boolean;
  /** What the guards are to let pass. */
  allow?: Allowance;
  /** Told as work goes on; `of` is the count the step will reach. */
  progress?: (step: string, done: number, of: number) => void;
}

/** What a publish run did. */
export interface PublishReport {
  outcome: "published" | "unchanged" | "dry-run";
  /** Of a dry run: whether a run that writes would make a commit. */
  wouldCommit?: boolean;
  /** The current commit after the run; 0 when there is none. */
  commit: number;
  snapshotId: string;
  counts: Manifest["counts"];
  /** Against the snapshot that was current; null when its manifest is gone. */
  changes: Changes | null;
  uploaded: Size;
  unchanged: Size;
  total: Size;
}

/**
 * Builds a snapshot and commits it: leaves, then manifest, then commit, then hint, then the public names.
 * Sources with the content of the current snapshot make no new commit.
 * Throws SourceRefusal, GuardRefusal, PublishingOnHoldError, CommitLostError, CollectedMeanwhileError, CommitUnknownError,
 * CorruptObjectError or StorageError; readers then see what they saw before, or, after a CommitUnknownError, either.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const { storage, sources, now, dryRun = false, resume = false } = options;
  const current = await newestCommit(storage);
  if (current?.hold && !resume) {
    // The rollback may have been stopped before the public names showed it.
    if (!dryRun) await updateMutableObjects(storage, options);
    const detail = `commit ${current.commit} is a rollback and holds publishing; go on with --resume`;
    throw new PublishingOnHoldError(`${storage.location}: ${detail}`);
  }
  const previous = current && (await readPrevious(storage, current, options.faulty));
  const scores = renderScores(await sources.scores());
  const objects = new ObjectWriter(storage, new Set(previous?.present.keys()), dryRun);
  const { changed, ...archive } = await writeArchive(options, objects, previous, scores);
  const manifest = await writeManifest(objects, sources.rowDigests, archive, scores);

  const before = current ? previous?.manifest.scores.records : {};
  const changes = before && { markets: changed, protocols: protocolChanges(before, manifest.scores.records) };
  const report = (outcome: PublishReport["outcome"], commit: number) =>
    reportOf(outcome, commit, manifest, objects, changes);
  const manifestBytes = Buffer.from(JSON.stringify(manifest));
  const ref = referTo(manifestBytes);
  // Objects that somebody deleted are there again now; under other names they need a commit that says so.
  const whole = previous?.complete || current?.manifest.hash === ref.hash;
  const same = current && current.snapshotId === manifest.snapshotId && !current.hold && whole;
  if (dryRun) return { ...report("dry-run", current?.commit ?? 0), wouldCommit: !same };
  // What the current snapshot reaches is safe. No manifest is put whose objects a collection takes away.
  if (!same) await refuseCollected(storage, objects.written, publicNames(manifest).keys());
  const manifestKey = layout.manifest(ref.hash);
  if (!same || !previous) await objects.write(manifestKey, manifestBytes);
  if (same) {
    await finishRun(storage, publicObjects(scores), "unchanged", now(), options);
    return report("unchanged", current.commit);
  }
  await refuseCollected(storage, new Set([manifestKey]));
  const commit = await appendCommit(storage, nextCommit(current, manifest, ref, objects.total, now()));
  await finishRun(storage, publicObjects(scores), "published", now(), options);
  return report("published", commit.commit);
}

/** What can be used again of the current snapshot: nothing when even its manifest is gone, and all is made anew. */
async function readPrevious(
  storage: Storage,
  current: Commit,
  faulty?: ReadonlySet<string>,
): Promise<PreviousSnapshot | undefined> {
  try {
    return await PreviousSnapshot.read(storage, current, faulty);
  } catch (error) {
    if (error instanceof MissingObjectError) return undefined;
    throw error;
  }
}

async function writeArchive(
  { storage, sources, temporaryDirectory, dryRun, progress = () => {}, allow = {} }: PublishOptions,
  objects: ObjectWriter,
  previous: PreviousSnapshot | undefined,
  scores: ScoreObjects,
): Promise<WrittenArchive & { changed: ChangeCounts }> {
  const { marketCount } = sources;
  const cutPoints = await sources.cutPoints(Math.ceil(marketCount / bucketMarkets));
  const sort = await ExternalSort.create(temporaryDirectory, cutPoints);
  const writer = new ArchiveWriter(objects, previous, (done) => progress("writing pages", done, marketCount));
  try {
    const kept = new Uint8Array(previous?.markets ?? 0);
    const difference = previous && new DifferenceCount(previous, kept);
    const comparable = previous?.manifest.rowDigests === sources.rowDigests;
    let rendered = 0;
    for await (const rows of sources.markets(
      comparable ? { digests: previous.rowDigests(), kept } : undefined,
    )) {
      difference?.add(rows);
      sort.add(rows);
      rendered += rows.length;
      progress("reading markets", rendered, marketCount);
    }
    // Those that are known did not come.
    progress("reading markets", marketCount, marketCount);
    let changed: ChangeCounts = { added: marketCount, changed: 0, removed: 0 };
    if (previous && difference) {
      const markets = kept.reduce((sum, bit) => sum + bit, rendered);
      const after = { markets, slugs: new Set(scores.records.keys()) };
      const found = await difference.markets();
      checkGuards(previous, found, after, allow);
      changed = found.all;
    }
    // From here on every row has passed validation and the guards: only now does anything go to the store.
    if (!dryRun) {
      await probeConditionalWrites(storage);
      await storage.removeLeftovers?.();
    }
    await mergeMarkets(writer, previous, kept, sort.sorted());
    const written = await writer.finish();
    if (written.markets !== marketCount)
      throw new Error(`${written.markets} markets were read where the sources count ${marketCount}`);
    return { ...written, changed };
  } finally {
    await writer.close();
    await sort.close();
  }
}

async function writeManifest(
  objects: ObjectWriter,
  rowDigests: string,
  archive: WrittenArchive,
  scores: ScoreObjects,
): Promise<Manifest> {
  const stored = await writeScores(objects, scores);
  const { segments, pageDigests, markets, newestResolvedAt } = archive;
  return {
    formatVersion,
    feedVersion,
    snapshotId: snapshotIdOf({ pageDigests, scores: stored }),
    counts: { markets, protocols: scores.records.size, segments: segments.length, pages: pageDigests.length },
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    rowDigests,
    segments,
    scores: stored,
  };
}

/** The commit that follows `current` and makes this manifest the current one. */
function nextCommit(
  current: Commit | undefined,
  { snapshotId, counts }: Manifest,
  manifest: Commit["manifest"],
  size: Size,
  now: Date,
): Omit<Commit, "digest"> {
  return {
    formatVersion,
    commit: (current?.commit ?? 0) + 1,
    snapshotId,
    manifest,
    counts,
    size,
    publishedAt: now.toISOString(),
    hold: false,
    withdrawn: current?.withdrawn ?? [],
    previous: current?.digest ?? null,
  };
}

function reportOf(
  outcome: PublishReport["outcome"],
  commit: number,
  { snapshotId, counts }: Manifest,
  { uploaded, unchanged, total }: ObjectWriter,
  changes: Changes | null = null,
): PublishReport {
  return { outcome, commit, snapshotId, counts, changes, uploaded, unchanged, total };
}
