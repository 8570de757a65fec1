import { type ObjectRef, type SourceFileRef, SourceFiles } from "../../schemas/store/stored-objects.ts";
import { firstWhere } from "../format/first-where.ts";
import { longIdHash, mayShare } from "../index/id-table.ts";
import { addRowsByFile, decodeOrigins, type Origins } from "../index/origin-table.ts";
import type { FileNumbers, KeyRange, KnownFiles } from "../sources/sources.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { parseObject } from "../store/objects.ts";
import type { PreviousSegment } from "./previous-rows.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";

// What a run takes over from the current snapshot instead of reading it from the sources again.

/**
 * The source files of which the store still has all rows. Undefined where the manifest does not name its files, or what
 * it refers to is gone or damaged.
 */
export async function knownFilesOf(previous: PreviousSnapshot): Promise<KnownFiles | undefined> {
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
export async function markKeptRows(
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
export async function holdsAnyOf(
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
export async function* rowDigestsOf(
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
