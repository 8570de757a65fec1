import { type IntegerName, type LabelName, labelFields } from "../../../schemas/filters.ts";
import { firstWhere } from "../../format/first-where.ts";
import type { CompressedPage } from "../../format/page.ts";
import type { LabelTables } from "../../index/column-sections.ts";
import type { Segment } from "../../index/segment.ts";
import { lowerBound, timeAt } from "../../index/time-column.ts";

/** `page` is counted within the segment, `line` within the page, newest first. */
export interface Location {
  segment: number;
  page: number;
  line: number;
}

/** The in-memory index of one snapshot: its columns, and where each market is stored. */
export class Archive {
  readonly markets: number;
  readonly segments: readonly Segment[];
  readonly tables: LabelTables;
  /** Ordinal of each segment's oldest market, then the number of markets. */
  readonly starts: Float64Array;

  /** `segments` come from the oldest. `tables` are those the segments were loaded with. */
  constructor(segments: readonly Segment[], tables: LabelTables) {
    this.segments = segments;
    this.tables = tables;
    this.starts = new Float64Array(segments.length + 1);
    segments.forEach((segment, index) => {
      this.starts[index + 1] = this.starts[index]! + segment.markets;
    });
    this.markets = this.starts[segments.length]!;
  }

  indexes(field: LabelName | IntegerName): boolean {
    return this.segments.every(
      ({ labels, integers }) => labels.has(field as LabelName) || integers.has(field as IntegerName),
    );
  }

  /** Changes when a table was made smaller, so that ids of labels mean other labels than before. */
  get labelGeneration(): number {
    return labelFields.reduce((sum, { field }) => sum + this.tables[field].generation, 0);
  }

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
