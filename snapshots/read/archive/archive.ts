import { type Condition, type IntegerName, type LabelName, labelFields } from "../../../schemas/filters.ts";
import { firstWhere } from "../../format/first-where.ts";
import type { StoredPage } from "../../format/page.ts";
import { rangeBitmap } from "../../index/bitmap.ts";
import { keepRanges } from "../../index/integer-column.ts";
import { keepLabels } from "../../index/label-column.ts";
import type { LabelTables, Segment } from "../../index/segment.ts";
import { lowerBound, timeAt } from "../../index/time-column.ts";
import { awaitBudget } from "../event-loop-budget.ts";
import { candidates, counted, Matches, type SegmentMatches } from "./matches.ts";

/** Cheap and selective conditions run first. Integer ranges are the most expensive. */
const evaluationOrder = { time: 0, label: 1, integer: 2 };

/** Where a market is stored: its segment, the page within the segment, and its line in the page, newest first. */
export interface Place {
  segment: number;
  page: number;
  line: number;
}

/** The in-memory index of one snapshot: which markets match a filter, and where each is stored. */
export class Archive {
  readonly markets: number;
  readonly segments: readonly Segment[];
  readonly tables: LabelTables;
  readonly #starts: Float64Array;

  /** `segments` are ordered from the oldest. `tables` are those the segments were loaded with. */
  constructor(segments: readonly Segment[], tables: LabelTables) {
    this.segments = segments;
    this.tables = tables;
    this.#starts = new Float64Array(segments.length + 1);
    segments.forEach((segment, index) => {
      this.#starts[index + 1] = this.#starts[index]! + segment.markets;
    });
    this.markets = this.#starts[segments.length]!;
  }

  /** Whether all segments have a column for a field. */
  indexes(field: LabelName | IntegerName): boolean {
    return this.segments.every(
      ({ labels, integers }) => labels.has(field as LabelName) || integers.has(field as IntegerName),
    );
  }

  /** Changes when ids of labels mean other labels than before, because a table was made smaller. */
  get labelGeneration(): number {
    return labelFields.reduce((sum, { field }) => sum + this.tables[field].generation, 0);
  }

  /** The markets that meet every condition. Other requests get their turn after each segment. */
  async match(conditions: readonly Condition[]): Promise<Matches> {
    for (;;) {
      const before = this.labelGeneration;
      const resolved = this.#resolved(conditions);
      const found: SegmentMatches[] = [];
      for (const segment of this.segments) {
        if (resolved.length > 0) await awaitBudget();
        found.push(matchSegment(segment, resolved));
      }
      // A new snapshot may have renumbered the labels meanwhile.
      if (this.labelGeneration === before) return new Matches(found, this.#starts);
    }
  }

  #resolved(conditions: readonly Condition[]): ResolvedCondition[] {
    return conditions
      .map((condition) =>
        condition.kind === "label"
          ? { ...condition, ids: this.tables[condition.field].matching(condition.value) }
          : condition,
      )
      .toSorted((a, b) => evaluationOrder[a.kind] - evaluationOrder[b.kind]);
  }

  /** Epoch milliseconds at which the market of this ordinal was resolved. */
  resolvedAt(ordinal: number): number {
    const index = this.#segmentOf(ordinal);
    return timeAt(this.segments[index]!.times, ordinal - this.#starts[index]!);
  }

  /** The ordinals whose markets were resolved at exactly this time: from (inclusive) to (exclusive). */
  resolvedAtExactly(time: number): { from: number; to: number } {
    const bound = (limit: number) =>
      this.segments.reduce((sum, segment) => sum + lowerBound(segment.times, limit), 0);
    return { from: bound(time), to: bound(time + 1) };
  }

  /** The ordinal of a segment's oldest market. */
  startOf(segment: number): number {
    return this.#starts[segment]!;
  }

  locate(ordinal: number): Place {
    const segment = this.#segmentOf(ordinal);
    const { pageStarts } = this.segments[segment]!;
    const local = ordinal - this.#starts[segment]!;
    const page = lastAtOrBelow(pageStarts, local);
    return { segment, page, line: pageStarts[page + 1]! - 1 - local };
  }

  page({ segment, page }: Place): StoredPage {
    return this.segments[segment]!.page(page);
  }

  #segmentOf(ordinal: number): number {
    if (!(ordinal >= 0 && ordinal < this.markets)) throw new RangeError(`no market has ordinal ${ordinal}`);
    return lastAtOrBelow(this.#starts, ordinal);
  }
}

/** Index of the last element at or below `value`. `starts` ascend, and their last element only marks the end. */
function lastAtOrBelow(starts: ArrayLike<number>, value: number): number {
  return firstWhere(1, starts.length - 1, (index) => starts[index]! > value) - 1;
}

type ResolvedCondition =
  | Exclude<Condition, { kind: "label" }>
  | { kind: "label"; field: LabelName; ids: number[] };

function matchSegment(segment: Segment, conditions: readonly ResolvedCondition[]): SegmentMatches {
  let [from, to] = [0, segment.markets];
  for (const condition of conditions) {
    if (condition.kind !== "time") continue;
    from = Math.max(from, lowerBound(segment.times, condition.from));
    // `to` is inclusive, and times are whole milliseconds.
    to = Math.min(to, lowerBound(segment.times, condition.to + 1));
  }
  const others = conditions.filter((condition) => condition.kind !== "time");
  const start = candidates(segment.markets, from, to);
  if (others.length === 0 || start.count === 0) return start;
  const bits = start.bits ?? rangeBitmap(segment.markets, 0, segment.markets);
  for (const condition of others) {
    if (condition.kind === "label") keepLabels(segment.labels.get(condition.field)!, condition.ids, bits);
    else keepRanges(segment.integers.get(condition.field)!, condition.ranges, bits);
  }
  return counted(segment.markets, bits);
}
