import type { Bitmap } from "../index/bitmap.ts";
import { type IntegerColumn, keepRange, sliceCount } from "../index/integer-column.ts";
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
export class Part implements Tally {
  readonly segment: Segment;
  readonly count: number;
  readonly disputed: number;
  readonly bits: Bitmap;
  readonly disputedBits: Bitmap;
  #ordinals: Uint16Array | undefined;

  /** `count` is the number of bits set in `bits`. */
  constructor(segment: Segment, count: number, bits: Bitmap) {
    this.segment = segment;
    this.count = count;
    this.bits = bits;
    this.disputedBits = bits.slice();
    keepRange(segment.integers.get("disputed")!, 1, 1, this.disputedBits);
    this.disputed = sliceKernel.countBits(this.disputedBits);
  }

  /** Counts the values in `buckets` buckets of this width from the column's lowest value; the last one takes the rest. */
  tally(column: IntegerColumn, width: number, buckets: number): Tally[] {
    // Looking at each match is faster while there is at most one a word.
    return this.count <= this.bits.length
      ? this.#tallyEach(column, width, buckets)
      : this.#tallyAll(column, width, buckets);
  }

  #tallyAll({ slices }: IntegerColumn, width: number, buckets: number): Tally[] {
    const bounds = Array.from({ length: buckets - 1 }, (_, place) => (place + 1) * width);
    const above = sliceKernel.countFrom(slices, bounds, this.bits, this.disputedBits);
    let [count, disputed] = [this.count, this.disputed];
    return Array.from({ length: buckets }, (_, bucket) => {
      const [nextCount, nextDisputed] = above[bucket] ?? [0, 0];
      const tally = { count: count - nextCount, disputed: disputed - nextDisputed };
      [count, disputed] = [nextCount, nextDisputed];
      return tally;
    });
  }

  #tallyEach({ min, max, slices }: IntegerColumn, width: number, buckets: number): Tally[] {
    this.#ordinals ??= this.#disputedFirst();
    const words = this.bits.length;
    const highest = (sliceCount(max - min) - 1) * words;
    const [disputed, others] = [new Uint32Array(buckets), new Uint32Array(buckets)];
    for (let place = 0; place < this.count; place += 1) {
      const ordinal = this.#ordinals[place]!;
      let value = 0;
      for (let at = highest + (ordinal >>> 5); at >= 0; at -= words)
        value = (value << 1) | ((slices[at]! >>> (ordinal & 31)) & 1);
      const bucket = Math.min(Math.trunc(value / width), buckets - 1);
      if (place < this.disputed) disputed[bucket]! += 1;
      else others[bucket]! += 1;
    }
    return Array.from(disputed, (count, bucket) => ({ count: count + others[bucket]!, disputed: count }));
  }

  /** The ordinals of all matches, those of disputed markets first. */
  #disputedFirst(): Uint16Array {
    const ordinals = new Uint16Array(this.count);
    let [disputed, others] = [0, this.disputed];
    this.bits.forEach((bits, word) => {
      for (let rest = bits; rest !== 0; rest &= rest - 1) {
        const lowest = rest & -rest;
        const ordinal = word * 32 + 31 - Math.clz32(lowest);
        if (this.disputedBits[word]! & lowest) ordinals[disputed++] = ordinal;
        else ordinals[others++] = ordinal;
      }
    });
    return ordinals;
  }
}
