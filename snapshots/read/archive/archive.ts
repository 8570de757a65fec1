import { firstWhere } from "../../format/first-where.ts";
import type { CompressedPage } from "../../format/page.ts";
import { lowerBound, timeAt } from "../../index/columns.ts";
import type { Segment } from "../../index/segment.ts";
import { ArchiveIndex } from "./evaluate.ts";

/** `page` is counted within the segment, `line` within the page, newest first. */
export interface Location {
  segment: number;
  page: number;
  line: number;
}

/** The index of one snapshot in memory, and where each market is stored. */
export class Archive extends ArchiveIndex<Segment> {
  /** Epoch milliseconds. */
  resolvedAt(ordinal: number): number {
    const index = this.#segmentOf(ordinal);
    return timeAt(this.segments[index]!.times, ordinal - this.starts[index]!);
  }

  /** The ordinals with exactly this time: from (inclusive) to (exclusive). */
  resolvedAtExactly(time: number): { from: number; to: number } {
    const bound = (limit: number) =>
      this.segments.reduce((sum, segment) => sum + lowerBound(segment.times, limit), 0);
    return { from: bound(time), to: bound(time + 1) };
  }

  locate(ordinal: number): Location {
    const segment = this.#segmentOf(ordinal);
    const { pageStarts } = this.segments[segment]!;
    const local = ordinal - this.starts[segment]!;
    const page = lastAtOrBelow(pageStarts, local);
    return { segment, page, line: pageStarts[page + 1]! - 1 - local };
  }

  page({ segment, page }: Location): CompressedPage {
    return this.segments[segment]!.page(page);
  }

  #segmentOf(ordinal: number): number {
    if (!(ordinal >= 0 && ordinal < this.markets)) throw new RangeError(`no market has ordinal ${ordinal}`);
    return lastAtOrBelow(this.starts, ordinal);
  }
}

/** Index of the last element at or below `value`. `starts` ascend, and their last element only marks the end. */
function lastAtOrBelow(starts: ArrayLike<number>, value: number): number {
  return firstWhere(1, starts.length - 1, (index) => starts[index]! > value) - 1;
}
