import { type Bitmap, countRange, rangeBitmap, selectDescending } from "../../index/bitmap.ts";
import { sliceKernel } from "../../index/slice-kernel.ts";

/** The matching ordinals of one segment. Without `bits`, either all match or, with count 0, none. */
export interface SegmentMatches {
  markets: number;
  count: number;
  bits: Bitmap | undefined;
}

/** The markets that a filter selects, as ordinals over the whole archive. */
export class Matches {
  readonly total: number;
  readonly segments: readonly SegmentMatches[];
  /** Ordinal of each segment's oldest market, then the number of markets. */
  readonly starts: ArrayLike<number>;

  constructor(segments: readonly SegmentMatches[], starts: ArrayLike<number>) {
    this.segments = segments;
    this.starts = starts;
    this.total = segments.reduce((sum, segment) => sum + segment.count, 0);
  }

  has(ordinal: number): boolean {
    return this.countFrom(ordinal) > this.countFrom(ordinal + 1);
  }

  /** Counts the matches with this ordinal or a higher one: those at or before it in the newest-first order. */
  countFrom(ordinal: number): number {
    let sum = 0;
    this.segments.forEach(({ markets, count, bits }, index) => {
      const local = ordinal - this.starts[index]!;
      if (local <= 0) sum += count;
      else if (local < markets && count > 0) sum += bits ? countRange(bits, local, markets) : markets - local;
    });
    return sum;
  }

  /** Up to `count` matches after the first `skip`, newest first: descending ordinals. */
  slice(skip: number, count: number): number[] {
    const ordinals: number[] = [];
    let before = 0;
    for (let index = this.segments.length - 1; index >= 0 && ordinals.length < count; index -= 1) {
      const segment = this.segments[index]!;
      if (before + segment.count > skip) {
        const local = sliceSegment(segment, Math.max(0, skip - before), count - ordinals.length);
        for (const ordinal of local) ordinals.push(this.starts[index]! + ordinal);
      }
      before += segment.count;
    }
    return ordinals;
  }
}

function sliceSegment({ markets, count, bits }: SegmentMatches, skip: number, wanted: number): number[] {
  if (bits) return selectDescending(bits, skip, wanted);
  const ordinals: number[] = [];
  const newest = markets - 1 - skip;
  // Array.from would take a hundred times as long.
  for (let n = Math.min(wanted, count - skip); n > 0; n -= 1) ordinals.push(newest - ordinals.length);
  return ordinals;
}

/** The ordinals from `from` (inclusive) to `to` (exclusive) of a segment. */
export function candidates(markets: number, from: number, to: number): SegmentMatches {
  if (from <= 0 && to >= markets) return { markets, count: markets, bits: undefined };
  return from >= to
    ? { markets, count: 0, bits: undefined }
    : { markets, count: to - from, bits: rangeBitmap(markets, from, to) };
}

export function counted(markets: number, bits: Bitmap): SegmentMatches {
  return { markets, count: sliceKernel.countBits(bits), bits };
}
