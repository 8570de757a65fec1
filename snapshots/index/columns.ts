import type { IntegerRange } from "../../schemas/filters.ts";
import { firstWhere } from "../format/bytes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import type { JsonValue } from "../store/json.ts";
import { type Bitmap, countRange, hasBit, setBit, wordsFor } from "./bitmap.ts";
import type { LabelTable } from "./label-table.ts";
import type { ColumnCondition, ValueRange } from "./slice-kernel.ts";

/** Integers from `min` to `max` in bit slices: slice s is a bitmap with bit s of (value - min) for every ordinal. */
export interface IntegerColumn {
  min: number;
  max: number;
  /** Lowest slice first, `wordsFor(markets)` words each. */
  slices: Uint32Array;
}

/** For values from 0 to `range`. */
export function sliceCount(range: number): number {
  return range === 0 ? 0 : 32 - Math.clz32(range);
}

/** `values` are by ordinal. Throws RangeError when one lies outside `min` to `max`. */
export function buildIntegerColumn(values: ArrayLike<number>, min: number, max: number): IntegerColumn {
  const words = wordsFor(values.length);
  const slices = new Uint32Array(words * sliceCount(max - min));
  for (let ordinal = 0; ordinal < values.length; ordinal += 1) {
    const value = values[ordinal]!;
    if (!(value >= min && value <= max)) throw new RangeError(`${value} is not within ${min}..${max}`);
    const bit = 1 << (ordinal & 31);
    for (let rest = value - min, word = ordinal >>> 5; rest !== 0; rest >>>= 1, word += words)
      if (rest & 1) slices[word]! |= bit;
  }
  return { min, max, slices };
}

/** The values by ordinal. */
export function decodeIntegers({ min, max, slices }: IntegerColumn, count: number): Uint32Array {
  const words = wordsFor(count);
  const values = new Uint32Array(count).fill(min);
  for (let slice = 0; slice < sliceCount(max - min); slice += 1) {
    const bits = slices.subarray(slice * words);
    for (let ordinal = 0; ordinal < count; ordinal += 1)
      if (hasBit(bits, ordinal)) values[ordinal]! += 2 ** slice;
  }
  return values;
}

/** Keeps the ordinals whose value is in one of the ranges. Undefined where all are. */
export function inRanges(
  { min, max, slices }: IntegerColumn,
  ranges: readonly IntegerRange[],
): ColumnCondition | undefined {
  const highest = max - min;
  const kept: ValueRange[] = [];
  for (const range of ranges) {
    const [low, high] = [Math.max(0, range.min - min), Math.min(highest, range.max - min)];
    if (low === 0 && high === highest) return undefined;
    if (low <= high) kept.push({ low, end: high < highest ? high + 1 : undefined });
  }
  return { slices, ranges: kept, ordinals: [] };
}

/** Ascending epoch milliseconds: the low 32 bits of each, and the ordinals at which the high bits change. */
export interface TimeColumn {
  markets: number;
  /** Epoch milliseconds. */
  oldest: number;
  newest: number;
  readonly low: Uint32Array;
  /** [first ordinal, high bits], ascending; the first is at ordinal 0. */
  epochs: [number, number][];
}

const lowRange = 2 ** 32;
/** Published years have four digits. */
export const maxTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const maxHigh = Math.floor(maxTime / lowRange);

/** `times` are ascending epoch milliseconds. */
export function buildTimeColumn(times: readonly number[]): TimeColumn {
  const epochs: [number, number][] = [];
  times.forEach((time, ordinal) => {
    const high = Math.floor(time / lowRange);
    if (epochs.at(-1)?.[1] !== high) epochs.push([ordinal, high]);
  });
  return timeColumn({ low: Uint32Array.from(times, (time) => time % lowRange), epochs });
}

type Stored = Pick<TimeColumn, "low" | "epochs">;

function timeColumn({ low, epochs }: Stored): TimeColumn {
  const [oldest, newest] = [timeAt({ low, epochs }, 0), timeAt({ low, epochs }, low.length - 1)];
  return { markets: low.length, oldest, newest, low, epochs };
}

export function epochsIn(header: JsonValue, markets: number): TimeColumn["epochs"] {
  const member = header.member("epochs");
  const epochs = member.items(markets).map((epoch) => epoch.pair());
  const ascends = epochs.every(([first, high], index) => {
    const [firstBefore, highBefore] = epochs[index - 1] ?? [-1, -1];
    return first > firstBefore && first < markets && high > highBefore && high <= maxHigh;
  });
  if (epochs[0]?.[0] !== 0 || !ascends) member.refuse();
  return epochs;
}

/** `key` is the object's, for errors. */
export function timesFrom(key: string, stored: Stored): TimeColumn {
  const { low, epochs } = stored;
  for (const [index, [first]] of epochs.entries()) {
    const end = epochs[index + 1]?.[0] ?? low.length;
    for (let ordinal = first + 1; ordinal < end; ordinal += 1)
      if (low[ordinal]! < low[ordinal - 1]!)
        throw new CorruptObjectError(key, "its section times does not ascend");
  }
  return timeColumn(stored);
}

/** Epoch milliseconds. */
export function timeAt({ low, epochs }: Stored, ordinal: number): number {
  const epoch = firstWhere(1, epochs.length, (index) => epochs[index]![0] > ordinal) - 1;
  return (epochs[epoch]?.[1] ?? 0) * lowRange + low[ordinal]!;
}

/** The first ordinal at or after `time`, or the column's length when there is none. */
export function lowerBound(column: TimeColumn, time: number): number {
  // Most segments lie wholly on one side of a time.
  if (column.newest < time) return column.markets;
  if (column.oldest >= time) return 0;
  return firstWhere(0, column.markets, (ordinal) => timeAt(column, ordinal) >= time);
}

/** Labels of at least one in this many of a segment's markets are frequent, and coded in bit slices. */
export const frequentShare = 32;

/**
 * A text column of a segment as stored: frequent labels have codes, rare ones posting lists. Labels are sorted by
 * UTF-16 code units.
 */
export interface LabelColumn {
  /** Code n stands for frequent[n - 1]. Code 0, which exists only beside rare labels, stands for any of these. */
  codes: IntegerColumn;
  frequent: string[];
  rare: string[];
  /** Ordinals of markets with rare labels, label after label, ascending within a label. */
  postings: Uint16Array;
  /** One bit per posting, set where a label's postings begin. */
  starts: Bitmap;
}

/** In memory, with ids of a LabelTable in place of labels. */
export interface LoadedLabelColumn extends Omit<LabelColumn, "frequent" | "rare" | "starts"> {
  frequentIds: Uint32Array;
  rareIds: Uint32Array;
  rare: RareMarkets;
}

interface RareMarkets {
  bits: Bitmap;
  /** How many of them come before each word of `bits`. */
  before: Uint16Array;
  /** The positions of their labels among the rare ones, by ordinal. */
  ranks: Uint16Array;
  /** Where the postings of each label begin. */
  begins: Uint16Array;
}

/** Without rare labels codes begin at 1. A label that all markets have, as most versions are, then takes no slice. */
export function lowestCode(rare: readonly string[]): number {
  return rare.length > 0 ? 0 : 1;
}

/** `values` are by ordinal, at most 65,536. */
export function buildLabelColumn(values: ArrayLike<string>): LabelColumn {
  const ordinals = new Map<string, number[]>();
  for (let ordinal = 0; ordinal < values.length; ordinal += 1) {
    const posting = ordinals.get(values[ordinal]!);
    if (posting) posting.push(ordinal);
    else ordinals.set(values[ordinal]!, [ordinal]);
  }
  const labels = [...ordinals.keys()].sort();
  const isFrequent = (label: string) => ordinals.get(label)!.length * frequentShare >= values.length;
  const frequent = labels.filter(isFrequent);
  const rare = labels.filter((label) => !isFrequent(label));
  const codeOf = new Map(frequent.map((label, position) => [label, position + 1]));
  const codes = Array.from(values, (value) => codeOf.get(value) ?? 0);
  const postings = Uint16Array.from(rare.flatMap((label) => ordinals.get(label)!));
  const starts = new Uint32Array(wordsFor(postings.length));
  let position = 0;
  for (const label of rare) {
    setBit(starts, position);
    position += ordinals.get(label)!.length;
  }
  return {
    codes: buildIntegerColumn(codes, lowestCode(rare), frequent.length),
    frequent,
    rare,
    postings,
    starts,
  };
}

/** What is wrong with a column, in words that follow its name. */
export function faultIn({ rare, frequent, postings, starts }: LabelColumn, markets: number) {
  const ascend = (labels: readonly string[]) =>
    labels.every((label, index) => index === 0 || labels[index - 1]! < label);
  if (!ascend(frequent) || !ascend(rare)) return "rare has labels that do not ascend";
  if (postings.length > markets) return "postings has more markets than there are";
  let [label, first, last] = [-1, 0, -1];
  for (let position = 0; position < postings.length; position += 1) {
    const ordinal = postings[position]!;
    if (hasBit(starts, position)) [label, first, last] = [label + 1, position, -1];
    if (ordinal >= markets) return "postings names a market beyond the last";
    if (ordinal <= last) return "postings does not ascend within a label";
    if ((position - first + 1) * frequentShare >= markets) return "postings has too many markets of a label";
    last = ordinal;
  }
  const each = label + 1 === rare.length && countRange(starts, 0, starts.length * 32) === rare.length;
  const begun = rare.length > 0 ? hasBit(starts, 0) : postings.length === 0;
  return each && begun ? undefined : "starts does not begin a list for each label";
}

/** The labels by ordinal. */
export function decodeLabels({ codes, frequent, rare, postings, starts }: LabelColumn, markets: number) {
  const values = Array.from(decodeIntegers(codes, markets), (code) => frequent[code - 1]);
  let label = -1;
  postings.forEach((ordinal, position) => {
    if (hasBit(starts, position)) label += 1;
    values[ordinal] = rare[label];
  });
  return values;
}

/** Adds the labels to `table`. */
export function loadLabels(stored: LabelColumn, markets: number, table: LabelTable): LoadedLabelColumn {
  const { codes, postings, frequent, rare } = stored;
  const intern = (text: string) => table.intern(text);
  return {
    codes,
    postings,
    frequentIds: Uint32Array.from(frequent, intern),
    rareIds: Uint32Array.from(rare, intern),
    rare: rareMarketsOf(stored, markets),
  };
}

/** Bytes of memory that a column takes beside its sections. */
export const tableBytes = ({ frequentIds, rareIds, rare }: LoadedLabelColumn): number =>
  [frequentIds, rareIds, ...Object.values(rare)].reduce((sum, { byteLength }) => sum + byteLength, 0);

/** Lets a count of labels look at each match, instead of at each market with a rare label. */
export function rareMarketsOf({ rare, postings, starts }: LabelColumn, markets: number): RareMarkets {
  const words = rare.length === 0 ? 0 : wordsFor(markets);
  const [bits, before] = [new Uint32Array(words), new Uint16Array(words)];
  const rankOf = new Uint16Array(words * 32);
  const begins = new Uint16Array(rare.length);
  let rank = -1;
  for (let position = 0; position < postings.length; position += 1) {
    if (hasBit(starts, position)) {
      rank += 1;
      begins[rank] = position;
    }
    rankOf[postings[position]!] = rank;
    setBit(bits, postings[position]!);
  }
  const ranks = new Uint16Array(postings.length);
  let count = 0;
  for (let word = 0; word < words; word += 1) {
    before[word] = count;
    for (let rest = bits[word]!; rest !== 0; rest &= rest - 1)
      ranks[count++] = rankOf[word * 32 + 31 - Math.clz32(rest & -rest)]!;
  }
  return { bits, before, ranks, begins };
}

// For more ids than this, looking up the column's ids among them is faster than the reverse.
const fewIds = 16;

/** The positions in a column of those `ids` that it has. */
function positionsIn(columnIds: Uint32Array, ids: ReadonlySet<number>): number[] {
  if (ids.size <= fewIds)
    return Array.from(ids, (id) => columnIds.indexOf(id)).filter((position) => position >= 0);
  const positions: number[] = [];
  columnIds.forEach((id, position) => {
    if (ids.has(id)) positions.push(position);
  });
  return positions;
}

/** Keeps the ordinals whose label is one of `ids`. Undefined where all are. */
export function inLabels(column: LoadedLabelColumn, ids: ReadonlySet<number>): ColumnCondition | undefined {
  const { codes, frequentIds, rareIds } = column;
  const frequent = positionsIn(frequentIds, ids).map((position) => ({
    min: position + 1,
    max: position + 1,
  }));
  const condition = inRanges(codes, frequent);
  return (
    condition && { ...condition, ordinals: positionsIn(rareIds, ids).map((rank) => postingsOf(column, rank)) }
  );
}

/** Those of the last label end with the postings. */
const postingsOf = ({ postings, rare: { begins } }: LoadedLabelColumn, rank: number): Uint16Array =>
  postings.subarray(begins[rank], begins[rank + 1]);
