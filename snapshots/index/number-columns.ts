import type { IntegerRange } from "../../schemas/filters.ts";
import { firstWhere } from "../format/first-where.ts";
import { CorruptObjectError } from "../store/errors.ts";
import type { JsonValue } from "../store/json.ts";
import { type Bitmap, hasBit, wordsFor } from "./bitmap.ts";
import { sliceKernel, type ValueRange } from "./slice-kernel.ts";

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
export function buildIntegerColumn(values: readonly number[], min: number, max: number): IntegerColumn {
  const words = wordsFor(values.length);
  const slices = new Uint32Array(words * sliceCount(max - min));
  values.forEach((value, ordinal) => {
    if (!(value >= min && value <= max)) throw new RangeError(`${value} is not within ${min}..${max}`);
    const bit = 1 << (ordinal & 31);
    for (let rest = value - min, word = ordinal >>> 5; rest !== 0; rest >>>= 1, word += words)
      if (rest & 1) slices[word]! |= bit;
  });
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

/** Clears in `result` every ordinal whose value is in none of the ranges. */
export function keepRanges(
  { min, max, slices }: IntegerColumn,
  ranges: readonly IntegerRange[],
  result: Bitmap,
): void {
  const highest = max - min;
  const kept: ValueRange[] = [];
  for (const range of ranges) {
    const [low, high] = [Math.max(0, range.min - min), Math.min(highest, range.max - min)];
    if (low === 0 && high === highest) return;
    if (low <= high) kept.push({ low, end: high < highest ? high + 1 : undefined });
  }
  if (kept.length === 0) result.fill(0);
  else sliceKernel.keepRanges(slices, kept, result);
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

/** `key` is the object's, for errors. Throws CorruptObjectError when the times do not ascend. */
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
