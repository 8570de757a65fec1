import type { Bitmap } from "../index/bitmap.ts";
import { type IntegerColumn, keepRanges, sliceCount } from "../index/integer-column.ts";
import type { Segment } from "../index/segment.ts";
import { sliceKernel } from "../index/slice-kernel.ts";

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

/** The matches of one segment, to be counted by the values of one column after another. */
export class Part {
  readonly segment: Segment;
  readonly bits: Bitmap;
  readonly disputedBits: Bitmap;
  readonly #all: Selection;
  readonly #disputed: Selection;

  /** `count` is the number of bits set in `bits`. */
  constructor(segment: Segment, count: number, bits: Bitmap) {
    this.segment = segment;
    this.bits = bits;
    this.disputedBits = bits.slice();
    keepRanges(segment.integers.get("disputed")!, [{ min: 1, max: 1 }], this.disputedBits);
    this.#all = new Selection(bits, count);
    this.#disputed = new Selection(this.disputedBits, sliceKernel.countBits(this.disputedBits));
  }

  /** Counts the values in `buckets` buckets of this width from the column's lowest value; the last one takes the rest. */
  tally(column: IntegerColumn, width: number, buckets: number): Tally[] {
    const disputed = this.#disputed.tally(column, width, buckets);
    return this.#all.tally(column, width, buckets).map((count, bucket) => {
      return { count, disputed: disputed[bucket]! };
    });
  }
}

// Looking at each match is faster while there is at most one in so many markets.
const sparseShare = 64;

/** Markets of one segment. */
class Selection {
  readonly #bits: Bitmap;
  readonly #count: number;
  #ordinals: Uint16Array | undefined;

  constructor(bits: Bitmap, count: number) {
    this.#bits = bits;
    this.#count = count;
  }

  tally(column: IntegerColumn, width: number, buckets: number): number[] {
    return this.#count * sparseShare <= this.#bits.length * 32
      ? this.#tallyEach(column, width, buckets)
      : this.#tallyAll(column, width, buckets);
  }

  #tallyAll({ slices }: IntegerColumn, width: number, buckets: number): number[] {
    const bounds = Array.from({ length: buckets - 1 }, (_, place) => (place + 1) * width);
    const above = sliceKernel.countFrom(slices, bounds, this.#bits);
    return [this.#count, ...above].map((count, bucket) => count - (above[bucket] ?? 0));
  }

  #tallyEach({ min, max, slices }: IntegerColumn, width: number, buckets: number): number[] {
    this.#ordinals ??= ordinalsOf(this.#bits, this.#count);
    const words = this.#bits.length;
    const highest = (sliceCount(max - min) - 1) * words;
    const counts = new Array<number>(buckets).fill(0);
    for (const ordinal of this.#ordinals) {
      let value = 0;
      for (let at = highest + (ordinal >>> 5); at >= 0; at -= words)
        value = (value << 1) | ((slices[at]! >>> (ordinal & 31)) & 1);
      counts[Math.min(Math.trunc(value / width), buckets - 1)]! += 1;
    }
    return counts;
  }
}

function ordinalsOf(bits: Bitmap, count: number): Uint16Array {
  const ordinals = new Uint16Array(count);
  let place = 0;
  for (let word = 0; word < bits.length; word += 1) {
    for (let rest = bits[word]!; rest !== 0; rest &= rest - 1)
      ordinals[place++] = word * 32 + 31 - Math.clz32(rest & -rest);
  }
  return ordinals;
}
