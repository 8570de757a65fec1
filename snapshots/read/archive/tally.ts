import type { Bitmap } from "../../index/bitmap.ts";
import type { SegmentColumns } from "../../index/column-sections.ts";
import { type IntegerColumn, keepRanges, sliceCount } from "../../index/integer-column.ts";
import { sliceKernel } from "../../index/slice-kernel.ts";

/** How often a value occurs, and how often so in disputed markets. */
export interface Tally {
  count: number;
  disputed: number;
}

/** Adds to a tally. */
export function addTo(tally: Tally, { count, disputed }: Tally): void {
  tally.count += count;
  tally.disputed += disputed;
}

// Looking at each match is faster while there is at most one in so many markets.
const sparseShare = 64;

/** The matches of one segment, to be counted by the values of one column after another. */
export class Part {
  readonly segment: SegmentColumns;
  readonly bits: Bitmap;
  readonly disputedBits: Bitmap;
  readonly #total: Tally;
  /** The ordinals of the matches, where there are few. */
  readonly #ordinals: Uint16Array | undefined;

  /** `count` is the number of bits set in `bits`. */
  constructor(segment: SegmentColumns, count: number, bits: Bitmap) {
    this.segment = segment;
    this.bits = bits;
    this.disputedBits = bits.slice();
    keepRanges(segment.integers.get("disputed")!, [{ min: 1, max: 1 }], this.disputedBits);
    this.#total = { count, disputed: sliceKernel.countBits(this.disputedBits) };
    this.#ordinals = count * sparseShare <= bits.length * 32 ? ordinalsOf(bits, count) : undefined;
  }

  /**
   * Counts the values in `buckets` buckets of this width from the column's lowest value; the last one takes the rest.
   */
  tally(column: IntegerColumn, width: number, buckets: number): Tally[] {
    return this.#ordinals
      ? this.#tallyEach(this.#ordinals, column, width, buckets)
      : this.#tallyAll(column, width, buckets);
  }

  #tallyAll({ slices }: IntegerColumn, width: number, buckets: number): Tally[] {
    const bounds = Array.from({ length: buckets - 1 }, (_, position) => (position + 1) * width);
    const above = sliceKernel.countFrom(slices, bounds, this.bits, this.disputedBits);
    const { count: all, disputed: allDisputed } = this.#total;
    return [[all, allDisputed] as const, ...above].map(([count, disputed], bucket) => {
      const [countAbove, disputedAbove] = above[bucket] ?? [0, 0];
      return { count: count - countAbove, disputed: disputed - disputedAbove };
    });
  }

  #tallyEach(
    ordinals: Uint16Array,
    { min, max, slices }: IntegerColumn,
    width: number,
    buckets: number,
  ): Tally[] {
    const words = this.bits.length;
    const highest = (sliceCount(max - min) - 1) * words;
    const tallies = Array.from({ length: buckets }, () => ({ count: 0, disputed: 0 }));
    for (const ordinal of ordinals) {
      let value = 0;
      for (let at = highest + (ordinal >>> 5); at >= 0; at -= words)
        value = (value << 1) | ((slices[at]! >>> (ordinal & 31)) & 1);
      const tally = tallies[Math.min(Math.trunc(value / width), buckets - 1)]!;
      tally.count += 1;
      tally.disputed += (this.disputedBits[ordinal >>> 5]! >>> (ordinal & 31)) & 1;
    }
    return tallies;
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
