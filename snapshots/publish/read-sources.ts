import { Fault, isFault } from "../../schemas/errors.ts";
import { type ObjectRef, type SourceFileRef, SourceFiles } from "../../schemas/store/stored-objects.ts";
import { firstWhere } from "../format/bytes.ts";
import { longIdHash, mayShare } from "../index/id-table.ts";
import { addRowsByFile, decodeOrigins, type Origins } from "../index/segment.ts";
import { namesOnlyChanges } from "../sources/files/source-files.ts";
import {
  type FileNumbers,
  type KeyRange,
  type KnownFiles,
  type OpenSources,
  SourceRefusal,
  type Sources,
} from "../sources/sources.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { parseObject } from "../store/objects.ts";
import { ExternalSort } from "./external-sort.ts";
import { archiveSides } from "./guards.ts";
import type { PreviousSegment } from "./previous-rows.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";
import { renderScores } from "./score-objects.ts";

/** About 50 MB of JSON text per bucket of the external sort. */
export const bucketMarkets = 16_384;

/** The sources as a run has read them: all rows have passed validation, but not yet the guards. */
export type ReadSources = Awaited<ReturnType<typeof readOnce>>;

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
export async function readSources(reading: Reading) {
  const knownFiles = reading.previous && (await knownFilesOf(reading.previous));
  if (knownFiles) {
    try {
      return await readOnce(reading, knownFiles);
    } catch (error) {
      const broken = error instanceof SourceRefusal && !namesOnlyChanges(error);
      if (!broken && !isFault(error, "UNREAD_FILES")) throw error;
    }
  }
  return readOnce(reading, undefined);
}

async function readOnce(reading: Reading, knownFiles: KnownFiles | undefined) {
  const sources = await reading.open(knownFiles);
  let sort: ExternalSort | undefined;
  try {
    const scores = renderScores(await sources.scores());
    const cutPoints = await sources.cutPoints(Math.ceil(sources.marketCount / bucketMarkets));
    sort = await ExternalSort.create(reading.temporaryDirectory, cutPoints);
    const read = await sortMarkets(reading, sources, sort);
    if (knownFiles) checkUnread(knownFiles, sources, read.fileRows);
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
function checkUnread(knownFiles: KnownFiles, { files }: Sources, fileRows: readonly number[]): void {
  const rowsOf = new Map(knownFiles.files.map(({ hash, rows }) => [hash, rows]));
  for (const [index, { name, hash, unchanged }] of files.entries())
    if (unchanged && fileRows[index] !== rowsOf.get(hash))
      throw new Fault("UNREAD_FILES", `${name}: ${fileRows[index]} of ${rowsOf.get(hash)} rows are known`);
}

/** Reads the markets of the sources, or of a range, which is compared with nothing. `sort` takes what is new. */
export async function sortMarkets(
  { previous, progress, range }: Pick<Reading, "previous" | "progress"> & { range?: KeyRange },
  sources: Sources,
  sort: ExternalSort,
) {
  const { files, marketCount } = sources;
  // Two bytes a market suffice, unless there are very many files.
  const Numbers = files.length < 2 ** 16 ? Uint16Array : Uint32Array;
  const kept: FileNumbers = new Numbers(previous?.markets ?? 0);
  const sides = range ? undefined : previous && archiveSides(previous.commit.entry.feedVersion);
  const fileRows = new Array<number>(files.length).fill(0);
  const unchanged = new Map<string, number>();
  for (const [index, { hash, unchanged: same }] of files.entries())
    if (same && !range) unchanged.set(hash, index + 1);
  const same = unchanged.size > 0 ? await markKeptRows(previous!, unchanged, kept) : undefined;
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
  return {
    markets,
    /** For each row of the current snapshot, the number of the file that still has it, or 0. */
    kept,
    /** The origins of those segments of the current snapshot whose files have not changed, by the segment's hash. */
    sameOrigins: same ?? new Map<string, ObjectRef>(),
    /** Has the new and changed markets too. Undefined without a current snapshot. */
    sides,
    /** By the order of Sources.files. */
    fileRows,
  };
}

// What a run takes over from the current snapshot instead of reading it from the sources again.

/**
 * The source files of which the store still has all rows. Undefined where the manifest does not name its files, or what
 * it refers to is gone or damaged.
 */
async function knownFilesOf(previous: PreviousSnapshot): Promise<KnownFiles | undefined> {
  const { sources, rowDigests } = previous.manifest;
  if (!sources) return undefined;
  const list = await previous.readIfSound(layout.sourceFiles(sources.hash), sources, (key, bytes) =>
    parseObject(key, bytes, SourceFiles),
  );
  if (!list) return undefined;
  const { files } = list;
  if (previous.complete) return { rowDigests, files };
  const rows = new Map<string, number>();
  for (const segment of previous.segments) {
    const origins = await originsOf(previous, segment);
    if (!origins) continue;
    for (const { usable, markets, start } of segment.pages) {
      const from = start - segment.start;
      if (usable) addRowsByFile(rows, { ...origins, places: origins.places.subarray(from, from + markets) });
    }
  }
  const whole = ({ hash, rows: all }: SourceFileRef) => (rows.get(hash) ?? 0) === all;
  return { rowDigests, files: files.filter(whole) };
}

/**
 * Writes the numbers of unchanged files, given by hash, at the ordinals of their rows. Returns, by the segment's hash,
 * the origins of those segments whose files are all unchanged.
 */
async function markKeptRows(
  previous: PreviousSnapshot,
  numbers: ReadonlyMap<string, number>,
  kept: FileNumbers,
): Promise<Map<string, ObjectRef>> {
  const same = new Map<string, ObjectRef>();
  await inParallel(previous.segments, async (segment) => {
    const { ref, start } = segment;
    const origins = await originsOf(previous, segment);
    if (!origins) return;
    const numberOf = origins.hashes.map((hash) => numbers.get(hash) ?? 0);
    if (!numberOf.includes(0)) same.set(ref.hash, ref.origins!);
    for (let row = 0; row < ref.markets; row += 1) kept[start + row] = numberOf[origins.places[row]!]!;
  });
  return same;
}

/** Undefined unless the store has the origins and every other object beside the segment. */
async function originsOf(previous: PreviousSnapshot, { ref }: PreviousSegment): Promise<Origins | undefined> {
  const { origins } = ref;
  if (!origins || !previous.hasBeside(ref)) return undefined;
  return previous.readIfSound(layout.origins(origins.hash), origins, (key, bytes) =>
    decodeOrigins(key, bytes, ref.markets),
  );
}

/** Whether a kept row's id has one of these long hashes, which ascend. */
async function holdsAnyOf(
  { segments, rows }: PreviousSnapshot,
  idHashes: Float64Array,
  kept: FileNumbers,
): Promise<boolean> {
  for (const { ref, start } of segments) {
    const files = kept.subarray(start, start + ref.markets);
    if (!files.some((file) => file > 0)) continue;
    for (const ordinal of mayShare(await rows.readIds(ref), idHashes)) {
      if (files[ordinal] === 0) continue;
      // The store has only a part of each hash. Few other ids share it.
      const hash = longIdHash(await rows.idOf(start + ordinal));
      const position = firstWhere(0, idHashes.length, (index) => idHashes[index]! >= hash);
      if (idHashes[position] === hash) return true;
    }
  }
  return false;
}

/**
 * Yields digests of the source rows that are not `kept` and may be in the range, segment by segment from ordinal
 * `start`. Other rows, and those of missing objects, have 0 or no segment.
 */
async function* rowDigestsOf(
  previous: PreviousSnapshot,
  kept: FileNumbers,
  range?: KeyRange,
): AsyncGenerator<{ start: number; digests: BigUint64Array }> {
  for (const segment of previous.segments) {
    if (range && !overlaps(segment, range)) continue;
    const { ref, start } = segment;
    const files = kept.subarray(start, start + ref.markets);
    if (!files.includes(0) || !previous.hasBeside(ref)) continue;
    const digests = await previous.rows.readDigests(ref);
    files.forEach((file, row) => {
      if (file > 0) digests[row] = 0n;
    });
    for (const page of segment.pages)
      if (!page.usable) digests.fill(0n, page.start - start, page.start - start + page.markets);
    yield { start, digests };
  }
}

/** Whether some of a segment's markets may be in a range. */
function overlaps({ pages }: PreviousSegment, { from, before }: KeyRange): boolean {
  const [oldest, newest] = [pages[0]?.oldest ?? 0, pages.at(-1)?.newest ?? 0];
  return (from?.resolvedAt ?? newest) <= newest && oldest <= (before?.resolvedAt ?? oldest);
}
