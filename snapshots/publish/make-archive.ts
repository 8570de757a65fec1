import { type Commit, maxProtocols } from "../../schemas/store/snapshot.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import type { Sources } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import type { RunLog } from "../trust/log/believe.ts";
import { ArchiveChanges } from "./archive-changes.ts";
import { ArchiveWriter, type WrittenArchive } from "./archive-writer.ts";
import { type Allowance, type ArchiveDifference, checkGuards, requireAtMost } from "./guards.ts";
import { mergeMarkets } from "./merge-markets.ts";
import { ObjectWriter } from "./object-writer.ts";
import type { PreviousSnapshot } from "./previous/snapshot.ts";
import type { ReadSources } from "./read-sources.ts";
import type { ScoreObjects } from "./score-objects.ts";

export interface BuildOptions {
  storage: Storage;
  /** Does everything except writing to the store. */
  dryRun?: boolean;
  /** Differences that the operator allows the guards to let pass. */
  allow?: Allowance;
  /** Called with what the operator should know before the commit is made. */
  warn?: (line: string) => void;
  /** Called as the work advances; `of` is the value of `done` at the end of the step. */
  progress?: (step: string, done: number, of: number) => void;
}

/** The current commit, and its snapshot unless the manifest is gone or damaged. */
export interface Before {
  current: Commit | undefined;
  previous: PreviousSnapshot | undefined;
  /** The log as it was when the run began, so that it need not be read again. */
  log?: RunLog;
}

/** Sources that were read and found sound. `fileRows` are in the order of the files. */
export interface SoundSources {
  sources: Pick<Sources, "files" | "scoreFiles" | "rowDigests">;
  fileRows: readonly number[];
  scores: ScoreObjects;
}

/** An archive whose pages and segments are written, with all that a run needs to finish a snapshot of it. */
export interface MadeArchive extends SoundSources {
  archive: WrittenArchive;
  /** Counts and writes the objects of the snapshot, and holds what only a new commit may need. */
  objects: ObjectWriter;
  changes: ArchiveChanges;
}

/** Compares what was read with the current snapshot, and writes pages and segments. */
export async function makeArchive(
  options: BuildOptions,
  read: ReadSources,
  before: Before,
): Promise<MadeArchive> {
  const { storage, dryRun = false, progress = () => {} } = options;
  const { previous } = before;
  const { sources, kept, sameOrigins, sort, difference, markets: total } = read;
  requireFewProtocols(read);
  let probed: Promise<void> | undefined;
  const probe = async () => {
    probed ??= probeConditionalWrites(storage);
    await probed;
  };
  const objects = snapshotWriter(options, previous, probe);
  const origins = { files: sources.files.map(({ hash }) => hash), kept, sameOrigins };
  const writer = new ArchiveWriter(objects, previous, origins, (done) =>
    progress("writing pages", done, total),
  );
  try {
    const compared = difference && (await difference.markets());
    guardArchive(before, compared, { ...read, markets: total }, options.allow);
    // Every row has passed validation and the guards. Nothing is written to the store before this point.
    if (!dryRun) await storage.removeLeftovers?.();
    const changes = new ArchiveChanges(new ObjectWriter(storage, new Set(), dryRun, probe), compared, total);
    await mergeMarkets(writer, previous, kept, sort.sorted(), changes.take);
    const archive = await writer.finish();
    if (archive.markets !== total)
      throw new Error(`${total} markets were read, but ${archive.markets} were written`);
    return { ...read, archive, objects, changes };
  } finally {
    await writer.close();
  }
}

/** Writes what the current snapshot does not have. `ready` is as in ObjectWriter. */
export function snapshotWriter(
  { storage, dryRun = false, warn }: Pick<BuildOptions, "storage" | "dryRun" | "warn">,
  previous: PreviousSnapshot | undefined,
  ready?: () => Promise<void>,
): ObjectWriter {
  const present = new Set(previous?.present.keys());
  if (previous) present.add(layout.manifest(previous.commit.manifest.hash));
  return new ObjectWriter(storage, present, dryRun, ready, warn);
}

/** Throws SourceRefusal when there are more protocols than a snapshot can have. */
export function requireFewProtocols({ sources, scores }: SoundSources): void {
  const name = nameOfAll(sources.scoreFiles, "protocol_scores");
  requireAtMost(name, scores.records.size, maxProtocols, "protocols");
}

/** Throws GUARD_REFUSED when more would change than an ordinary run explains. */
export function guardArchive(
  { current, previous }: Before,
  compared: ArchiveDifference | undefined,
  { markets, scores }: Pick<SoundSources, "scores"> & { markets: number },
  allow: Allowance = {},
): void {
  if (!current) return;
  const records = previous?.manifest.scores?.records;
  const slugs = records && Object.keys(records);
  const after = { markets, slugs: new Set(scores.records.keys()) };
  checkGuards({ counts: current.entry.counts, slugs }, compared?.judged, after, allow);
}

/** Makes sure that the store can keep commits apart, and removes what killed writers left in it. */
export async function prepareStore(storage: Storage): Promise<void> {
  await probeConditionalWrites(storage);
  await storage.removeLeftovers?.();
}
