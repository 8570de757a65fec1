import type { IntegerRange } from "../../schemas/filters.ts";
import { addBits, type Bitmap, setBit, wordsFor } from "./bitmap.ts";

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
  const count = sliceCount(range);
  if (from > to) result.fill(0);
  else if (to === range) {
    if (from > 0) keepFrom(column.slices, count, from, result);
  } else keepBetween(column.slices, count, from, to + 1, result);
}

// Whether a value is at least the bound is computed from the lowest bit up: where the bound has a 1, the value must
// have a 1 as well (and); where the bound has a 0, a 1 in the value suffices (or). Four words of 32 ordinals are
// processed at a time, because the loop over the slices costs as much as the work for one word (`npm run bench`, row
// 3).
const stride = 4;

function keepFrom(slices: Uint32Array, count: number, bound: number, result: Bitmap): void {
  const words = result.length;
  const whole = words - (words % stride);
  for (let word = 0; word < whole; word += stride) {
    if ((result[word]! | result[word + 1]! | result[word + 2]! | result[word + 3]!) === 0) continue;
    let a = -1;
    let b = -1;
    let c = -1;
    let d = -1;
    for (let slice = 0, at = word; slice < count; slice += 1, at += words) {
      if ((bound >>> slice) & 1) {
        a &= slices[at]!;
        b &= slices[at + 1]!;
        c &= slices[at + 2]!;
        d &= slices[at + 3]!;
      } else {
        a |= slices[at]!;
        b |= slices[at + 1]!;
        c |= slices[at + 2]!;
        d |= slices[at + 3]!;
      }
    }
    result[word]! &= a;
    result[word + 1]! &= b;
    result[word + 2]! &= c;
    result[word + 3]! &= d;
  }
  for (let word = whole; word < words; word += 1) result[word]! &= atLeast(slices, count, bound, word, words);
}

/** Keeps the values from `low` (inclusive) to `end` (exclusive). */
function keepBetween(slices: Uint32Array, count: number, low: number, end: number, result: Bitmap): void {
  const words = result.length;
  const whole = words - (words % stride);
  for (let word = 0; word < whole; word += stride) {
    if ((result[word]! | result[word + 1]! | result[word + 2]! | result[word + 3]!) === 0) continue;
    let a = -1;
    let b = -1;
    let c = -1;
    let d = -1;
    let e = -1;
    let f = -1;
    let g = -1;
    let h = -1;
    for (let slice = 0, at = word; slice < count; slice += 1, at += words) {
      const p = slices[at]! | 0;
      const q = slices[at + 1]! | 0;
      const r = slices[at + 2]! | 0;
      const s = slices[at + 3]! | 0;
      if ((low >>> slice) & 1) {
        a &= p;
        b &= q;
        c &= r;
        d &= s;
      } else {
        a |= p;
        b |= q;
        c |= r;
        d |= s;
      }
      if ((end >>> slice) & 1) {
        e &= p;
        f &= q;
        g &= r;
        h &= s;
      } else {
        e |= p;
        f |= q;
        g |= r;
        h |= s;
      }
    }
    result[word]! &= a & ~e;
    result[word + 1]! &= b & ~f;
    result[word + 2]! &= c & ~g;
    result[word + 3]! &= d & ~h;
  }
  for (let word = whole; word < words; word += 1)
    result[word]! &= atLeast(slices, count, low, word, words) & ~atLeast(slices, count, end, word, words);
}

/** The ordinals of one word whose values are at least `bound`. */
function atLeast(slices: Uint32Array, count: number, bound: number, word: number, words: number): number {
  let kept = -1;
  for (let slice = 0, at = word; slice < count; slice += 1, at += words)
    kept = (bound >>> slice) & 1 ? kept & slices[at]! : kept | slices[at]!;
  return kept;
}
