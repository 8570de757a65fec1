import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MarketFacets } from "../../../../schemas/envelopes.ts";
import { facetNames } from "../../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { combinations } from "../../../helpers/archive/combinations.ts";
import { testFilters } from "../../../helpers/archive/filter-check.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { serveSample } from "../../../helpers/http/archive-served.ts";

const everything = { filters: {}, page: 1, pageSize: 1 };

describe.each([
  ["2,000 markets", { filters: 80, facets: 60 }, { markets: 2_000, seed: 1 }],
  [
    "more labels than most have markets",
    { filters: 40, facets: 40 },
    { markets: 1_200, seed: 2, outcomes: 900 },
  ],
])("of a sample of %s", (_, runs, sample) => {
  const served = serveSample(sample);
  testFilters(served, runs.filters);

  test(`facets under ${runs.facets} combinations are counted as the sources have them`, async () => {
    const sources = await served.expected();
    const limit = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(undefined, 1000));
    const by = fc.shuffledSubarray([...facetNames], { minLength: 1, maxLength: 4 });
    const asked = fc.record({ combination: combinations(served.markets), limit, by });
    await fc.assert(
      fc.asyncProperty(asked, async ({ combination: { filters }, limit, by }) => {
        const limited = limit === undefined ? {} : { limit };
        const answer = await served.proxy.facets({ ...filters, by: by.join(","), ...limited });
        MarketFacets.parse(answer);
        const found = plainFilter(sources, filters);
        expect(answer.total).toBe(found.length);
        expect(Object.keys(answer.facets)).toEqual(by);
        for (const name of by) {
          const expected = expectedFacet(name, tallies(name, found), limit ?? 100);
          expect(JSON.stringify(answer.facets[name])).toBe(JSON.stringify(expected));
        }
      }),
      {
        numRuns: runs.facets,
        // More labels than are put in order at a time.
        examples: [
          [{ combination: everything, limit: 1, by: ["outcome"] }],
          [{ combination: everything, limit: 12, by: ["outcome"] }],
        ],
      },
    );
  });
});

interface Row {
  value: string;
  count: number;
  disputed: number;
}

const labels: Record<string, (market: HistoricalMarket) => string> = {
  category: (market) => market.category,
  outcome: (market) => market.resolvedOutcome,
  tier: (market) => market.tier,
  disputed: (market) => String(market.disputed),
  formula_version: (market) => market.formulaVersion,
  weight_version: (market) => market.weightVersion,
};

/** What a market counts for. Scores become the number of their bucket. */
function keyOf(name: string, market: HistoricalMarket): string {
  if (name === "month") return market.resolvedAt.slice(0, 7);
  if (name === "composite") return String(Math.min(Math.floor((market.composite - 300) / 50), 13));
  const score = market.dimensions.find(({ key }) => key === name)?.score;
  return labels[name]?.(market) ?? String(Math.min(Math.floor(score! / 10), 9));
}

function tallies(name: string, markets: readonly HistoricalMarket[]): Row[] {
  const rows = new Map<string, Row>();
  for (const market of markets) {
    const value = keyOf(name, market);
    const row = rows.get(value) ?? { value, count: 0, disputed: 0 };
    rows.set(value, row);
    row.count += 1;
    row.disputed += Number(market.disputed);
  }
  return [...rows.values()];
}

function expectedFacet(name: string, rows: readonly Row[], limit: number) {
  const none = { count: 0, disputed: 0 };
  if (labels[name]) {
    const ordered = rows.toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
    const rest = ordered.slice(limit);
    const sum = (key: "count" | "disputed") => rest.reduce((total, row) => total + row[key], 0);
    const other = { count: sum("count"), disputed: sum("disputed") };
    return { distinct: rows.length, buckets: ordered.slice(0, limit), other };
  }
  const found = new Map(rows.map(({ value, ...tally }) => [value, tally]));
  if (name === "month") {
    const seen = rows.map((row) => row.value).sort();
    const months: string[] = [];
    for (let month = seen[0]; month !== undefined && month <= seen.at(-1)!; month = nextMonth(month))
      months.push(month);
    return { buckets: months.map((value) => ({ value, ...(found.get(value) ?? none) })) };
  }
  const [width, count, min, max] = name === "composite" ? [50, 14, 300, 1000] : [10, 10, 0, 100];
  const buckets = Array.from({ length: count }, (_, bucket) => {
    const from = min + bucket * width;
    const to = bucket === count - 1 ? max : from + width - 1;
    return { from, to, ...(found.get(String(bucket)) ?? none) };
  });
  return { width, buckets };
}

function nextMonth(month: string): string {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return number === 12 ? `${year + 1}-01` : `${year}-${String(number + 1).padStart(2, "0")}`;
}
