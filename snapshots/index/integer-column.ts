import type { IntegerRange } from "../../schemas/filters.ts";
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
