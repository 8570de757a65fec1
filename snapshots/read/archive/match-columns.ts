import type { Condition, LabelName } from "../../../schemas/filters.ts";
import { rangeBitmap } from "../../index/bitmap.ts";
import type { LabelTables, SegmentColumns } from "../../index/column-sections.ts";
import { keepRanges } from "../../index/integer-column.ts";
import { keepLabels } from "../../index/label-column.ts";
import { lowerBound } from "../../index/time-column.ts";
import { candidates, counted, Matches, type SegmentMatches } from "./matches.ts";

/** The columns of an archive that counting needs. */
export interface Columns {
  /** From the oldest. */
  segments: readonly SegmentColumns[];
  tables: LabelTables;
  /** The ordinal of each segment's oldest market, then the number of markets. */
  starts: ArrayLike<number>;
  /** Changes when ids of labels mean other labels than before. */
  labelGeneration: number;
}

/** Waits for a `turn` before each segment. */
export async function matchColumns(
  archive: Columns,
  conditions: readonly Condition[],
  turn: () => Promise<void>,
): Promise<Matches> {
  for (;;) {
    const before = archive.labelGeneration;
    const resolved = resolvedIn(archive, conditions);
    const found: SegmentMatches[] = [];
    for (const segment of archive.segments) {
      if (resolved.length > 0) await turn();
      found.push(matchSegment(segment, resolved));
    }
    // A new snapshot may have renumbered the labels meanwhile.
    if (archive.labelGeneration === before) return new Matches(found, archive.starts);
  }
}

type ResolvedCondition =
  | Exclude<Condition, { kind: "label" }>
  | { kind: "label"; field: LabelName; ids: number[] };

/** Cheap and selective conditions run first. Integer ranges are the most expensive. */
const evaluationOrder = { time: 0, label: 1, integer: 2 };

/** In the order of evaluation, with ids in place of labels. */
function resolvedIn({ tables }: Columns, conditions: readonly Condition[]): ResolvedCondition[] {
  return conditions
    .map((condition) =>
      condition.kind === "label"
        ? { ...condition, ids: tables[condition.field].matching(condition.value) }
        : condition,
    )
    .toSorted((a, b) => evaluationOrder[a.kind] - evaluationOrder[b.kind]);
}

function matchSegment(segment: SegmentColumns, conditions: readonly ResolvedCondition[]): SegmentMatches {
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
