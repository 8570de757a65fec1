import { type Bitmap, rangeBitmap } from "../../index/bitmap.ts";
import type { SegmentColumns } from "../../index/columns.ts";
import { type IntegerColumn, sliceCount } from "../../index/number-columns.ts";
import { everyValue, sliceKernel } from "../../index/slice-kernel.ts";
import type { SegmentMatches } from "./matches.ts";

/** How often a value occurs, and how often in disputed markets. */
export interface Tally {
  count: number;
  disputed: number;
}

export function addTo(tally: Tally, { count, disputed }: Tally): void {
  tally.count += count;
  tally.disputed += disputed;
}

/** Buckets have this width from the column's lowest value up; the last one takes the rest. */
export interface Buckets {
  column: IntegerColumn;
  width: number;
  buckets: number;
}

// Looking at each match is faster while there is at most one in this many markets.
const sparseShare = 64;

/** The matches of one segment, to be counted by the values of its columns. */
export class Part {
  readonly segment: SegmentColumns;
  readonly bits: Bitmap;
  /** The disputed markets, whether they match or not. */
  readonly disputed: Bitmap;
  readonly #count: number;

  constructor(
    segment: SegmentColumns,
    { markets, count, bits = rangeBitmap(markets, 0, markets) }: SegmentMatches,
  ) {
    this.segment = segment;
    this.bits = bits;
    this.disputed = segment.integers.get("disputed")!.slices;
    this.#count = count;
  }

  /** Counts in all these buckets at once: for each, its matches and, behind that, the disputed ones. */
  tally(all: readonly (Buckets | undefined)[]): Uint32Array[] {
    const ends = [0];
    for (const asked of all) ends.push(ends.at(-1)! + (asked?.buckets ?? 0) * 2);
    // One array for all: each takes time to be made.
    const together = new Uint32Array(ends.at(-1)!);
    const tallies = all.map((_, place) => together.subarray(ends[place], ends[place + 1]));
    if (this.#count * sparseShare <= this.bits.length * 32) this.#tallyEach(all, tallies);
    else this.#tallyTogether(all, tallies);
    return tallies;
  }

  #tallyTogether(all: readonly (Buckets | undefined)[], tallies: readonly Uint32Array[]): void {
    const columns = [everyValue];
    for (const asked of all)
      if (asked) columns.push({ slices: asked.column.slices, width: asked.width, bounds: asked.buckets - 1 });
    const above = sliceKernel.countColumns(this.bits, this.disputed, columns);
    let next = 2;
    for (const own of tallies) {
      own[0] = above[0]!;
      own[1] = above[1]!;
      // What is above a bound is in the buckets behind it.
      for (let at = 0; at < own.length - 2; at += 2, next += 2) {
        own[at]! -= above[next]!;
        own[at + 1]! -= above[next + 1]!;
        own[at + 2] = above[next]!;
        own[at + 3] = above[next + 1]!;
      }
    }
  }

  #tallyEach(all: readonly (Buckets | undefined)[], tallies: readonly Uint32Array[]): void {
    const words = this.bits.length;
    const ordinals = ordinalsOf(this.bits, this.#count);
    for (const [place, own] of tallies.entries()) {
      const asked = all[place];
      if (!asked) continue;
      const { min, max, slices } = asked.column;
      const { width, buckets } = asked;
      const highest = (sliceCount(max - min) - 1) * words;
      for (const ordinal of ordinals) {
        const [word, bit] = [ordinal >>> 5, ordinal & 31];
        let value = 0;
        for (let at = highest + word; at >= 0; at -= words)
          value = (value << 1) | ((slices[at]! >>> bit) & 1);
        const bucket = Math.min(Math.trunc(value / width), buckets - 1) * 2;
        own[bucket]! += 1;
        own[bucket + 1]! += (this.disputed[word]! >>> bit) & 1;
      }
    }
  }
}

function ordinalsOf(bits: Bitmap, count: number): Uint16Array {
  const ordinals = new Uint16Array(count);
  let position = 0;
  for (let word = 0; word < bits.length; word += 1) {
    for (let rest = bits[word]!; rest !== 0; rest &= rest - 1)
      ordinals[position++] = word * 32 + 31 - Math.clz32(rest & -rest);
  }
  return ordinals;
}
