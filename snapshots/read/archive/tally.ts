import type { Bitmap } from "../../index/bitmap.ts";
import type { SegmentColumns } from "../../index/column-sections.ts";
import { type IntegerColumn, sliceCount } from "../../index/integer-column.ts";
import { everyValue, sliceKernel } from "../../index/slice-kernel.ts";

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

  /** `count` is the number of bits set in `bits`. */
  constructor(segment: SegmentColumns, count: number, bits: Bitmap) {
    this.segment = segment;
    this.bits = bits;
    this.disputed = segment.integers.get("disputed")!.slices;
    this.#count = count;
  }

  /** Counts in all these buckets at once: for each, its matches and, behind that, the disputed ones. */
  tally(all: readonly Buckets[]): Uint32Array {
    const tallies = new Uint32Array(all.reduce((sum, { buckets }) => sum + buckets * 2, 0));
    if (this.#count * sparseShare <= this.bits.length * 32) this.#tallyEach(all, tallies);
    else this.#tallyTogether(all, tallies);
    return tallies;
  }

  #tallyTogether(all: readonly Buckets[], tallies: Uint32Array): void {
    const columns = [everyValue];
    for (const { column, width, buckets } of all)
      columns.push({ slices: column.slices, width, bounds: buckets - 1 });
    const above = sliceKernel.countColumns(this.bits, this.disputed, columns);
    let [at, next] = [0, 2];
    for (const { buckets } of all) {
      tallies[at] = above[0]!;
      tallies[at + 1] = above[1]!;
      // What is above a bound is in the buckets behind it.
      for (const end = at + buckets * 2 - 2; at < end; at += 2, next += 2) {
        tallies[at]! -= above[next]!;
        tallies[at + 1]! -= above[next + 1]!;
        tallies[at + 2] = above[next]!;
        tallies[at + 3] = above[next + 1]!;
      }
      at += 2;
    }
  }

  #tallyEach(all: readonly Buckets[], tallies: Uint32Array): void {
    const words = this.bits.length;
    const ordinals = ordinalsOf(this.bits, this.#count);
    let first = 0;
    for (const { column, width, buckets } of all) {
      const { min, max, slices } = column;
      const highest = (sliceCount(max - min) - 1) * words;
      for (const ordinal of ordinals) {
        const [word, bit] = [ordinal >>> 5, ordinal & 31];
        let value = 0;
        for (let at = highest + word; at >= 0; at -= words)
          value = (value << 1) | ((slices[at]! >>> bit) & 1);
        const bucket = first + Math.min(Math.trunc(value / width), buckets - 1) * 2;
        tallies[bucket]! += 1;
        tallies[bucket + 1]! += (this.disputed[word]! >>> bit) & 1;
      }
      first += buckets * 2;
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
