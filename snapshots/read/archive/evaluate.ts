import { type Condition, everyField, type FacetName, type LabelName } from "../../../schemas/filters.ts";
import { type Bitmap, countRange, rangeBitmap, selectDescending } from "../../index/bitmap.ts";
import { inLabels, inRanges, lowerBound, type TimeColumn } from "../../index/columns.ts";
import type { LabelTables, SegmentColumns } from "../../index/index-reader.ts";
import { type ColumnCondition, sliceKernel } from "../../index/slice-kernel.ts";
import type { WordTable } from "../../index/word-table.ts";
import { inParallel, type Turn } from "../../store/in-parallel.ts";
import { type ArchiveFilter, invalidParameter } from "../parameters.ts";

/**
 * What filters and facets are answered from: the columns of an archive, resident in a service, fetched when they are
 * needed by a reader.
 */
export class ArchiveIndex<Columns extends SegmentColumns = SegmentColumns> {
  /** From the oldest. */
  readonly segments: readonly Columns[];
  readonly tables: LabelTables;
  readonly markets: number;
  /** The ordinal of each segment's oldest market, then the number of markets. */
  readonly starts: Float64Array;
  /** Of the feed. */
  readonly version: string;
  /** The words of a segment, by its place. */
  readonly words: (segment: number) => Promise<WordTable>;
  readonly #name: string;
  /** Fields that not every segment has a column for. */
  readonly #lacking: ReadonlySet<string>;

  /**
   * `tables` are those the segments were or will be loaded with. `name` is how errors name the archive, at the
   * beginning of a sentence.
   */
  constructor(
    segments: readonly Columns[],
    tables: LabelTables,
    { name, version, words }: { name: string } & Pick<ArchiveIndex, "version" | "words">,
  ) {
    this.segments = segments;
    this.tables = tables;
    this.#name = name;
    this.version = version;
    this.words = words;
    this.starts = new Float64Array(segments.length + 1);
    segments.forEach((segment, index) => {
      this.starts[index + 1] = this.starts[index]! + segment.markets;
    });
    this.markets = this.starts[segments.length]!;
    const names = segments.map(({ fields }) => new Set<string>(fields.map(({ field }) => field)));
    this.#lacking = new Set([...everyField.keys()].filter((name) => !names.every((own) => own.has(name))));
  }

  /** Repeats the work if a new snapshot replaced a table meanwhile: then ids stand for other labels than before. */
  async settled<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      const before = Object.values(this.tables);
      const result = await work();
      if (Object.values(this.tables).every((table, place) => table === before[place])) return result;
    }
  }

  /** Loads the columns of these fields in the segments that need them. */
  load(fields: readonly FacetName[], needs: (segment: Columns, index: number) => boolean): void {
    const lacking = fields.find((field) => this.#lacking.has(field));
    if (lacking)
      throw invalidParameter(
        lacking,
        `${this.#name} has no index for ${lacking}; leave it out, or ask for another snapshot.`,
      );
    this.segments.forEach((segment, index) => {
      if (segment.load && needs(segment, index)) segment.load(fields);
    });
  }
}

/** Whether a filter's times exclude all markets of a segment. Then nothing else of its index is needed. */
export function isLeftOut(
  { oldest, newest }: Pick<TimeColumn, "oldest" | "newest">,
  conditions: readonly Condition[],
): boolean {
  return conditions.some(
    (condition) => condition.kind === "time" && (condition.from > newest || condition.to < oldest),
  );
}

// The words of a segment take up to some megabytes while they are read.
const wordsAtOnce = 8;

/** Selects by columns first, then by words. Waits for a `turn` before each segment. */
export async function evaluate(
  index: ArchiveIndex,
  { conditions, words }: Pick<ArchiveFilter, "conditions" | "words">,
  turn: Turn,
): Promise<Matches> {
  const fields = conditions.flatMap((condition) => (condition.kind === "time" ? [] : condition.field));
  index.load(fields, ({ times }) => !isLeftOut(times, conditions));
  const segments = await index.settled(async () => {
    const resolved = resolvedIn(index, conditions);
    const matched: SegmentMatches[] = [];
    for (const segment of index.segments) {
      if (resolved.length > 0) await turn();
      matched.push(matchSegment(segment, resolved));
    }
    return matched;
  });
  const look = async ([position, segment]: [number, SegmentMatches]) => {
    const { markets, count, bits = rangeBitmap(markets, 0, markets) } = segment;
    if (count === 0) return;
    await (await index.words(position)).keepWords(words, bits, turn);
    segments[position] = { markets, count: sliceKernel.countBits(bits), bits };
  };
  if (words.length > 0) await inParallel(segments.entries(), look, wordsAtOnce);
  return new Matches(segments, index.starts);
}

type ResolvedCondition =
  | Exclude<Condition, { kind: "label" }>
  | { kind: "label"; field: LabelName; ids: ReadonlySet<number> };

/** Cheap and selective conditions run first. Integer ranges are the most expensive. */
const evaluationOrder = { time: 0, label: 1, integer: 2 };

/** In the order of evaluation, with ids in place of labels. */
function resolvedIn({ tables }: ArchiveIndex, conditions: readonly Condition[]): ResolvedCondition[] {
  return conditions
    .map((condition) =>
      condition.kind === "label"
        ? { ...condition, ids: new Set(tables[condition.field].matching(condition.value)) }
        : condition,
    )
    .toSorted((a, b) => evaluationOrder[a.kind] - evaluationOrder[b.kind]);
}

function matchSegment(segment: SegmentColumns, conditions: readonly ResolvedCondition[]): SegmentMatches {
  let [from, to] = [0, segment.markets];
  for (const condition of conditions) {
    if (condition.kind !== "time") continue;
    from = Math.max(from, lowerBound(segment.times, condition.from));
    // `to` is inclusive, and times are whole milliseconds.
    to = Math.min(to, lowerBound(segment.times, condition.to + 1));
  }
  const { markets } = segment;
  const narrowing: ColumnCondition[] = [];
  if (from < to)
    for (const condition of conditions) {
      if (condition.kind === "time") continue;
      const kept =
        condition.kind === "label"
          ? inLabels(segment.labels.get(condition.field)!, condition.ids)
          : inRanges(segment.integers.get(condition.field)!, condition.ranges);
      if (!kept) continue;
      if (kept.ranges.length === 0 && kept.ordinals.length === 0) return candidates(markets, 0, 0);
      narrowing.push(kept);
    }
  if (narrowing.length === 0) return candidates(markets, from, to);
  return { markets, ...sliceKernel.select(markets, from, to, narrowing) };
}

/** The matching ordinals of one segment. Without `bits`, either all match or, with count 0, none. */
export interface SegmentMatches {
  markets: number;
  count: number;
  bits: Bitmap | undefined;
}

/** The markets that a filter selects, as ordinals over the whole archive. */
export class Matches {
  readonly total: number;
  readonly segments: readonly SegmentMatches[];
  /** As in the index. */
  readonly starts: ArrayLike<number>;

  constructor(segments: readonly SegmentMatches[], starts: ArrayLike<number>) {
    this.segments = segments;
    this.starts = starts;
    this.total = segments.reduce((sum, segment) => sum + segment.count, 0);
  }

  has(ordinal: number): boolean {
    return this.countFrom(ordinal) > this.countFrom(ordinal + 1);
  }

  /** Counts the matches with this ordinal or a higher one: those at or before it in the newest-first order. */
  countFrom(ordinal: number): number {
    let sum = 0;
    this.segments.forEach(({ markets, count, bits }, index) => {
      const local = ordinal - this.starts[index]!;
      if (local <= 0) sum += count;
      else if (local < markets && count > 0) sum += bits ? countRange(bits, local, markets) : markets - local;
    });
    return sum;
  }

  /** Up to `count` matches after the first `skip`, newest first: descending ordinals. */
  slice(skip: number, count: number): number[] {
    const ordinals: number[] = [];
    let before = 0;
    for (let index = this.segments.length - 1; index >= 0 && ordinals.length < count; index -= 1) {
      const segment = this.segments[index]!;
      if (before + segment.count > skip) {
        const local = sliceSegment(segment, Math.max(0, skip - before), count - ordinals.length);
        for (const ordinal of local) ordinals.push(this.starts[index]! + ordinal);
      }
      before += segment.count;
    }
    return ordinals;
  }
}

function sliceSegment({ markets, count, bits }: SegmentMatches, skip: number, wanted: number): number[] {
  if (bits) return selectDescending(bits, skip, wanted);
  const ordinals: number[] = [];
  const newest = markets - 1 - skip;
  // Array.from would take a hundred times as long.
  for (let n = Math.min(wanted, count - skip); n > 0; n -= 1) ordinals.push(newest - ordinals.length);
  return ordinals;
}

/** The ordinals from `from` (inclusive) to `to` (exclusive) of a segment. */
export function candidates(markets: number, from: number, to: number): SegmentMatches {
  if (from <= 0 && to >= markets) return { markets, count: markets, bits: undefined };
  return from >= to
    ? { markets, count: 0, bits: undefined }
    : { markets, count: to - from, bits: rangeBitmap(markets, from, to) };
}
