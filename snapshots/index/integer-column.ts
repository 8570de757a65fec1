import { type Bitmap, setBit, wordsFor } from "./bits.ts";

/** Integers `min..max`, bit by bit: slice s holds bit s of (value - min) of every ordinal, as one bitmap. */
export interface IntegerColumn {
  min: number;
  max: number;
  /** All slices, lowest first, `wordsFor(markets)` words each. */
  slices: Uint32Array;
}

/** Slices needed for values `0..range`. */
export function sliceCount(range: number): number {
  return range === 0 ? 0 : 32 - Math.clz32(range);
}

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

/** Clears in `result` every ordinal whose value is not within `low..high` (inclusive). */
export function keepRange(column: IntegerColumn, low: number, high: number, result: Bitmap): void {
  const range = column.max - column.min;
  const [from, to] = [Math.max(0, low - column.min), Math.min(range, high - column.min)];
  if (from > to) {
    result.fill(0);
    return;
  }
  const count = sliceCount(range);
  if (from === to) keepEqual(column.slices, count, from, result);
  else {
    if (from > 0) keepAtLeast(column.slices, count, from, result);
    if (to < range) keepAtMost(column.slices, count, to, result);
  }
}

// Each loop decides one word of 32 ordinals from the highest slice down (O'Neil and Quass, bit-sliced indexes):
// `open` marks ordinals whose bits so far equal the bound's.

function keepEqual(slices: Uint32Array, count: number, value: number, result: Bitmap): void {
  const words = result.length;
  for (let word = 0; word < words; word += 1) {
    let open = result[word]!;
    for (let slice = count - 1; slice >= 0 && open !== 0; slice -= 1) {
      const bits = slices[slice * words + word]!;
      open &= (value >>> slice) & 1 ? bits : ~bits;
    }
    result[word] = open;
  }
}

function keepAtLeast(slices: Uint32Array, count: number, bound: number, result: Bitmap): void {
  const words = result.length;
  for (let word = 0; word < words; word += 1) {
    let open = result[word]!;
    let above = 0;
    for (let slice = count - 1; slice >= 0 && open !== 0; slice -= 1) {
      const bits = slices[slice * words + word]!;
      if ((bound >>> slice) & 1) open &= bits;
      else {
        above |= open & bits;
        open &= ~bits;
      }
    }
    result[word] = above | open;
  }
}

function keepAtMost(slices: Uint32Array, count: number, bound: number, result: Bitmap): void {
  const words = result.length;
  for (let word = 0; word < words; word += 1) {
    let open = result[word]!;
    let below = 0;
    for (let slice = count - 1; slice >= 0 && open !== 0; slice -= 1) {
      const bits = slices[slice * words + word]!;
      if ((bound >>> slice) & 1) {
        below |= open & ~bits;
        open &= bits;
      } else open &= ~bits;
    }
    result[word] = below | open;
  }
}
