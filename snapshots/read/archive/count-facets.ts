import type { LabelFacet, MarketFacets, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import {
  bucketStarts,
  type FacetName,
  type FilterField,
  facetLimit,
  feedFields,
  type LabelName,
} from "../../../schemas/filters.ts";
import { type Bitmap, countRange, popCount, rangeBitmap } from "../../index/bitmap.ts";
import {
  type IntegerColumn,
  type LoadedLabelColumn,
  lowerBound,
  sliceCount,
  timeAt,
} from "../../index/columns.ts";
import type { SegmentColumns } from "../../index/index-reader.ts";
import type { LabelTable } from "../../index/label-table.ts";
import { everyValue, sliceKernel } from "../../index/slice-kernel.ts";
import type { Turn } from "../../store/in-parallel.ts";
import { invalidParameter } from "../parameters.ts";
import type { ArchiveIndex, Matches, SegmentMatches } from "./evaluate.ts";

interface Counter {
  /** What has to be tallied in a segment, if anything. */
  bucketsIn?(segment: SegmentColumns): Buckets;
  /** Adds the matches of a segment, which were tallied so. */
  add(matched: MatchedSegment, tallies: Uint32Array): void;
  result(turn: Turn): Promise<Facet>;
}

type Facet = LabelFacet | ScoreFacet | MonthFacet;

// Markets that one facet counts in a step of the event loop's budget: three segments of usual size.
const marketsPerStep = 2 ** 17;

/** Waits for a `turn` before each segment. */
export async function countFacets(
  index: ArchiveIndex,
  matches: Matches,
  by: readonly FacetName[],
  limit: number,
  turn: Turn,
): Promise<MarketFacets["facets"]> {
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= facetLimit.max))
    throw invalidParameter("limit", `limit must be an integer from 1 to ${facetLimit.max}.`);
  // Every count says how many of the markets were disputed.
  index.load(["disputed", ...by], (_, position) => matches.segments[position]!.count > 0);
  return index.settled(async () => {
    const counters = by.map((name) => [name, counterOf(index, name, limit)] as const);
    for (const [place, segment] of index.segments.entries()) {
      if (matches.segments[place]!.count === 0) continue;
      await turn(Math.ceil((counters.length * segment.markets) / marketsPerStep));
      const matched = matchedIn(segment, matches.segments[place]!);
      const tallies = tally(
        matched,
        counters.map(([, counter]) => counter.bucketsIn?.(segment)),
      );
      for (const [position, [, counter]] of counters.entries()) counter.add(matched, tallies[position]!);
    }
    const facets: Record<string, Facet> = {};
    for (const [name, counter] of counters) facets[name] = await counter.result(turn);
    return facets;
  });
}

function counterOf(index: ArchiveIndex, name: string, limit: number): Counter {
  if (name === "month") return monthCounter();
  const row = feedFields(index.version).find(({ field }) => field === name)!;
  return row.kind === "label"
    ? labelCounter(row.field, index.tables[row.field], limit)
    : integerCounter(row, limit);
}

type IntegerField = Extract<FilterField, { kind: "integer" }>;

function integerCounter(row: IntegerField, limit: number): Counter {
  const { field, values, bucketWidth: width } = row;
  const tallies = bucketStarts(row).map((from) => ({ from, count: 0, disputed: 0 }));
  /** Those of the buckets that have values of a column. */
  const talliesOf = ({ min, max }: IntegerColumn) => {
    const first = Math.floor((min - row.min) / width);
    return tallies.filter(({ from }, place) => place >= first && from <= max);
  };
  return {
    bucketsIn({ integers }) {
      const column = integers.get(field)!;
      return { column, width, buckets: talliesOf(column).length };
    },
    add({ segment }, counted) {
      let next = 0;
      for (const tally of talliesOf(segment.integers.get(field)!)) {
        tally.count += counted[next]!;
        tally.disputed += counted[next + 1]!;
        next += 2;
      }
    },
    async result() {
      if (values) {
        const entries = tallies.map(({ count, disputed }, position) => {
          return { value: values[position]!, count, disputed };
        });
        const all = entries.filter(({ count }) => count > 0);
        const ordered = all.toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
        const other = { count: 0, disputed: 0 };
        for (const tally of ordered.slice(limit)) addTo(other, tally);
        return { distinct: all.length, buckets: ordered.slice(0, limit), other };
      }
      const buckets = tallies.map(({ from, count, disputed }, position) => {
        const next = tallies[position + 1];
        return { from, to: next ? next.from - 1 : row.max, count, disputed };
      });
      return { width, buckets };
    },
  };
}

// Labels looked at between two turns of other requests.
const labelsAtOnce = 16_384;
// The best labels are sorted again when there are this many too many.
const spare = 256;

function labelCounter(field: LabelName, table: LabelTable, limit: number): Counter {
  const [counts, disputed] = [new Uint32Array(table.size), new Uint32Array(table.size)];
  /** By count, highest first, then by label in code unit order. */
  const compare = (a: number, b: number): number => counts[b]! - counts[a]! || table.compare(a, b);

  function addRare({ bits, disputed: marks }: MatchedSegment, { rareIds, rare }: LoadedLabelColumn): void {
    for (let word = 0; word < bits.length; word += 1) {
      const those = rare.bits[word]!;
      for (let rest = those & bits[word]!; rest !== 0; rest &= rest - 1) {
        const lowest = rest & -rest;
        const id = rareIds[rare.ranks[rare.before[word]! + popCount(those & (lowest - 1))]!]!;
        counts[id]! += 1;
        if (marks[word]! & lowest) disputed[id]! += 1;
      }
    }
  }

  return {
    bucketsIn({ labels }) {
      const { codes } = labels.get(field)!;
      return { column: codes, width: 1, buckets: codes.max - codes.min + 1 };
    },
    add(matched, tallies) {
      const column = matched.segment.labels.get(field)!;
      let next = 0;
      // Code 0 stands for all rare labels together.
      if (column.codes.min === 0) {
        if (tallies[next]! > 0) addRare(matched, column);
        next += 2;
      }
      for (const id of column.frequentIds) {
        counts[id]! += tallies[next]!;
        disputed[id]! += tallies[next + 1]!;
        next += 2;
      }
    },
    async result(turn) {
      const other = { count: 0, disputed: 0 };
      let distinct = 0;
      let best: number[] = [];
      let worst: number | undefined;
      const keepBest = () => {
        best = best.sort(compare).slice(0, limit);
        worst = best[limit - 1];
      };
      for (let from = 0; from < counts.length; from += labelsAtOnce) {
        await turn(1);
        const to = Math.min(counts.length, from + labelsAtOnce);
        for (let id = from; id < to; id += 1) {
          if (counts[id] === 0) continue;
          distinct += 1;
          addTo(other, { count: counts[id]!, disputed: disputed[id]! });
          if (worst !== undefined && compare(id, worst) > 0) continue;
          best.push(id);
          if (best.length === limit + spare) keepBest();
        }
      }
      keepBest();
      const buckets = best.map((id) => {
        addTo(other, { count: -counts[id]!, disputed: -disputed[id]! });
        return { value: table.label(id), count: counts[id]!, disputed: disputed[id]! };
      });
      return { distinct, buckets, other };
    },
  };
}

/** Times ascend, so a UTC month is a range of ordinals. */
function monthCounter(): Counter {
  /** By the number of months since year 0. */
  const months = new Map<number, Tally>();
  return {
    add({ segment: { times }, bits, disputed }) {
      for (let [from, to] = [0, 0]; from < times.markets; from = to) {
        const date = new Date(timeAt(times, from));
        const [year, ofYear] = [date.getUTCFullYear(), date.getUTCMonth()];
        to = lowerBound(times, Date.UTC(year, ofYear + 1));
        const count = countRange(bits, from, to);
        if (count === 0) continue;
        const month = year * 12 + ofYear;
        const tally = months.get(month) ?? { count: 0, disputed: 0 };
        addTo(tally, { count, disputed: countRange(disputed, from, to, bits) });
        months.set(month, tally);
      }
    },
    async result() {
      const numbers = [...months.keys()];
      const first = Math.min(...numbers);
      // Without months this is below 0, and there are no buckets.
      const length = Math.max(...numbers) - first + 1;
      const buckets = Array.from({ length }, (_, position) => {
        const month = first + position;
        const [year, ofYear] = [Math.floor(month / 12), (month % 12) + 1];
        const value = `${year}-${String(ofYear).padStart(2, "0")}`;
        return { value, ...(months.get(month) ?? { count: 0, disputed: 0 }) };
      });
      return { buckets };
    },
  };
}

/** How often a value occurs, and how often in disputed markets. */
interface Tally {
  count: number;
  disputed: number;
}

function addTo(tally: Tally, { count, disputed }: Tally): void {
  tally.count += count;
  tally.disputed += disputed;
}

/** Buckets have this width from the column's lowest value up; the last one takes the rest. */
interface Buckets {
  column: IntegerColumn;
  width: number;
  buckets: number;
}

// Looking at each match is faster while there is at most one in this many markets.
const sparseShare = 64;

/** The matches of one segment, to be counted by the values of its columns. */
const matchedIn = (
  segment: SegmentColumns,
  { markets, count, bits = rangeBitmap(markets, 0, markets) }: SegmentMatches,
) => ({
  segment,
  count,
  bits,
  /** Those of all its markets, whether they match or not. */
  disputed: segment.integers.get("disputed")!.slices,
});
type MatchedSegment = ReturnType<typeof matchedIn>;

/** Counts in all these buckets at once: for each, its matches and, behind that, the disputed ones. */
function tally(matched: MatchedSegment, all: readonly (Buckets | undefined)[]): Uint32Array[] {
  const ends = [0];
  for (const facet of all) ends.push(ends.at(-1)! + (facet?.buckets ?? 0) * 2);
  // One array for all: each takes time to be made.
  const together = new Uint32Array(ends.at(-1)!);
  const tallies = all.map((_, place) => together.subarray(ends[place], ends[place + 1]));
  const isSparse = matched.count * sparseShare <= matched.bits.length * 32;
  (isSparse ? tallyEach : tallyTogether)(matched, all, tallies);
  return tallies;
}

function tallyTogether(
  { bits, disputed }: MatchedSegment,
  all: readonly (Buckets | undefined)[],
  tallies: readonly Uint32Array[],
): void {
  const columns = [everyValue];
  for (const facet of all)
    if (facet) columns.push({ slices: facet.column.slices, width: facet.width, bounds: facet.buckets - 1 });
  const above = sliceKernel.countColumns(bits, disputed, columns);
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

function tallyEach(
  { bits, disputed, count }: MatchedSegment,
  all: readonly (Buckets | undefined)[],
  tallies: readonly Uint32Array[],
): void {
  const words = bits.length;
  const ordinals = ordinalsOf(bits, count);
  for (const [place, own] of tallies.entries()) {
    const facet = all[place];
    if (!facet) continue;
    const { min, max, slices } = facet.column;
    const { width, buckets } = facet;
    const highest = (sliceCount(max - min) - 1) * words;
    for (const ordinal of ordinals) {
      const [word, bit] = [ordinal >>> 5, ordinal & 31];
      let value = 0;
      for (let at = highest + word; at >= 0; at -= words) value = (value << 1) | ((slices[at]! >>> bit) & 1);
      const bucket = Math.min(Math.trunc(value / width), buckets - 1) * 2;
      own[bucket]! += 1;
      own[bucket + 1]! += (disputed[word]! >>> bit) & 1;
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
