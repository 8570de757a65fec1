import { Fault, isFault } from "../../schemas/errors.ts";
import type { ObjectRef } from "../../schemas/store/stored-objects.ts";
import { longIdHash } from "../index/id-table.ts";
import { SourceRefusal } from "../sources/contract/refusals.ts";
import { namesOnlyChanges } from "../sources/files/source-files.ts";
import type { FileNumbers, KeyRange, KnownFiles, OpenSources, Sources } from "../sources/sources.ts";
import { ExternalSort } from "./external-sort.ts";
import { ArchiveSides } from "./guards.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";
import { holdsAnyOf, knownFilesOf, markKeptRows, rowDigestsOf } from "./previous-sources.ts";
import { renderScores, type ScoreObjects } from "./score-objects.ts";

/** About 50 MB of JSON text per bucket of the external sort. */
export const bucketMarkets = 16_384;

/** The sources as a run has read them: all rows have passed validation, but not yet the guards. */
export interface ReadSources {
  sources: Sources;
  scores: ScoreObjects;
  markets: number;
  /** For each row of the current snapshot, the number of the file that still has it, or 0. */
  kept: FileNumbers;
  /** By the segment's hash: origins of those of its segments whose files have not changed. */
  sameOrigins: ReadonlyMap<string, ObjectRef>;
  /** Markets that are new or changed. */
  sort: ExternalSort;
  /** Has those markets too. Undefined without a current snapshot. */
  sides: ArchiveSides | undefined;
  /** By the order of Sources.files. */
  fileRows: readonly number[];
  close(): Promise<void>;
}

interface Reading {
  open: OpenSources;
  previous: PreviousSnapshot | undefined;
  /** For the external sort. */
  temporaryDirectory: string;
  progress: (step: string, done: number, of: number) => void;
}

/**
 * Reads the sources, without the files that have not changed since the current snapshot. When anything in the others is
 * wrong, reads all of them, so that refusals do not depend on what was published before. Files that change meanwhile
 * are refused at once.
 */
export async function readSources(reading: Reading): Promise<ReadSources> {
  const known = reading.previous && (await knownFilesOf(reading.previous));
  if (known) {
    try {
      return await readOnce(reading, known);
    } catch (error) {
      const broken = error instanceof SourceRefusal && !namesOnlyChanges(error);
      if (!broken && !isFault(error, "UNREAD_FILES")) throw error;
    }
  }
  return readOnce(reading, undefined);
}

async function readOnce(reading: Reading, known: KnownFiles | undefined): Promise<ReadSources> {
  const sources = await reading.open(known);
  let sort: ExternalSort | undefined;
  try {
    const scores = renderScores(await sources.scores());
    const cutPoints = await sources.cutPoints(Math.ceil(sources.marketCount / bucketMarkets));
    sort = await ExternalSort.create(reading.temporaryDirectory, cutPoints);
    const read = await sortMarkets(reading, sources, sort);
    if (known) checkUnread(known, sources, read.fileRows);
    // DuckDB would keep hundreds of megabytes while pages are written.
    await sources.close();
    return { sources, scores, sort, close: () => sort!.close(), ...read };
  } catch (error) {
    // The first error says more than those that it causes.
    await Promise.allSettled([sort?.close(), sources.close()]);
    throw error;
  }
}

/** Throws UNREAD_FILES when rows of an unread file are not where the current snapshot should have them. */
function checkUnread(known: KnownFiles, { files }: Sources, fileRows: readonly number[]): void {
  const rowsOf = new Map(known.files.map(({ hash, rows }) => [hash, rows]));
  for (const [index, { name, hash, unchanged }] of files.entries())
    if (unchanged && fileRows[index] !== rowsOf.get(hash))
      throw new Fault("UNREAD_FILES", `${name}: ${fileRows[index]} of ${rowsOf.get(hash)} rows are known`);
}

/** Reads the markets of the sources, or of a range, which is compared with nothing. */
export async function sortMarkets(
  { previous, progress, range }: Pick<Reading, "previous" | "progress"> & { range?: KeyRange },
  sources: Sources,
  sort: ExternalSort,
) {
  const { files, marketCount } = sources;
  // Two bytes a market suffice, unless there are very many files.
  const Numbers = files.length < 2 ** 16 ? Uint16Array : Uint32Array;
  const kept = new Numbers(previous?.markets ?? 0);
  const sides = range ? undefined : previous && new ArchiveSides(previous.commit.entry.feedVersion);
  const fileRows = new Array<number>(files.length).fill(0);
  const unchanged = new Map<string, number>();
  for (const [index, { hash, unchanged: same }] of files.entries())
    if (same && !range) unchanged.set(hash, index + 1);
  const sameOrigins = unchanged.size > 0 ? await markKeptRows(previous!, unchanged, kept) : new Map();
  const comparable = previous?.manifest.rowDigests === sources.rowDigests;
  const fresh: number[] = [];
  let read = 0;
  for await (const rows of sources.markets(
    comparable ? { digests: rowDigestsOf(previous, kept, range), kept } : undefined,
    range,
  )) {
    for (const row of rows) sides?.add("after", row);
    sort.add(rows);
    for (const { file, id } of rows) {
      fileRows[file - 1]! += 1;
      if (unchanged.size > 0) fresh.push(longIdHash(id));
    }
    read += rows.length;
    progress("reading markets", read, marketCount);
  }
  // Unchanged markets were skipped, so the count above ends below the total.
  progress("reading markets", marketCount, marketCount);
  if (fresh.length > 0 && (await holdsAnyOf(previous!, Float64Array.from(fresh).sort(), kept)))
    throw new Fault("UNREAD_FILES", "a row has an id that an unread file has too");
  for (const file of kept) if (file > 0) fileRows[file - 1]! += 1;
  const markets = fileRows.reduce((sum, rows) => sum + rows, 0);
  return { markets, kept, sameOrigins, sides, fileRows };
}
