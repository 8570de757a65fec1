import type { IntegerRange } from "../../schemas/filters.ts";
import { addBits, type Bitmap, setBit, wordsFor } from "./bitmap.ts";
import { sliceKernel } from "./slice-kernel.ts";

/** A column of integers `min..max` in bit slices: slice s is a bitmap with bit s of (value - min) for every ordinal. */
export interface IntegerColumn {
  min: number;
  max: number;
  /** All slices, lowest first, with `wordsFor(markets)` words each. */
  slices: Uint32Array;
}

/** The number of slices needed for values `0..range`. */
export function sliceCount(range: number): number {
  return range === 0 ? 0 : 32 - Math.clz32(range);
}

/** Builds a column from the values by ordinal. Throws RangeError when one lies outside `min` to `max`. */
export function buildIntegerColumn(values: readonly number[], min: number, max: number): IntegerColumn {
  const words = wordsFor(values.length);
  const slices = new Uint32Array(words * sliceCount(max - min));
  values.forEach((value, ordinal) => {
    if (!(value >= min && value <= max)) throw new RangeError(`${value} is not within ${min}..${max}`);
    for (let rest = value - min, slice = 0; rest !== 0; rest >>>= 1, slice += 1) {
      if (rest & 1) setBit(slices.subarray(slice * words, (slice + 1) * words), ordinal);
    }
  });
  return { min, max, slices };
}

/** Clears every ordinal in `result` whose value is in none of the ranges. */
export function keepRanges(
  column: IntegerColumn,
  [first, ...others]: readonly IntegerRange[],
  result: Bitmap,
): void {
  if (!first) return void result.fill(0);
  const all = others.map(({ min, max }) => {
    const part = result.slice();
    keepRange(column, min, max, part);
    return part;
  });
  keepRange(column, first.min, first.max, result);
  for (const part of all) addBits(result, part);
}

/** Clears every ordinal in `result` whose value is not in `low..high` (inclusive). */
export function keepRange(column: IntegerColumn, low: number, high: number, result: Bitmap): void {
  const range = column.max - column.min;
  const [from, to] = [Math.max(0, low - column.min), Math.min(range, high - column.min)];
  if (from > to) result.fill(0);
  else if (from > 0 || to < range)
    sliceKernel.keepBetween(column.slices, from, to < range ? to + 1 : undefined, result);
}
