import type { DuckDBConnection } from "@duckdb/node-api";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MarketFacets } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import type { ServedArchive } from "../http/archive-served.ts";
import { combinations } from "./archive-combinations.ts";
import type { Query } from "./archive-proxy.ts";
import { withDuckDb } from "./archive-sql.ts";
import { sqlFilter, whereOf } from "./archive-sql-filter.ts";

/** Defines the test that the facets of `runs` random combinations of filters are what SQL counts. */
export function testFacets(served: ServedArchive, runs: number): void {
  test(`facets of ${runs} combinations of filters agree with SQL`, { timeout: 600_000 }, async () => {
    await withDuckDb(served.folder, async (sql) => {
      await sqlFilter(sql, served.directory);
      const limit = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(undefined, 1000));
      const by = fc.shuffledSubarray([...facetNames], { minLength: 1, maxLength: 4 });
      const asked = fc.record({ combination: combinations(served.markets), limit, by });
      await fc.assert(
        fc.asyncProperty(asked, async ({ combination: { filters }, limit, by }) => {
          const answer = await served.proxy.facets({
            ...filters,
            by: by.join(","),
            ...(limit !== undefined && { limit }),
          });
          MarketFacets.parse(answer);
          const { total, facets } = answer;
          expect(Object.keys(facets)).toEqual(by);
          for (const name of by) {
            const rows = await tallies(sql, name, filters);
            const expected = expectedFacet(name, rows, limit ?? 100);
            expect(JSON.stringify(facets[name])).toBe(JSON.stringify(expected));
            expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(total);
          }
        }),
        { numRuns: runs },
      );
    });
  });
}

interface Row {
  value: string;
  count: number;
  disputed: number;
}

const labels = ["category", "outcome", "tier", "disputed", "formula_version", "weight_version"];

/** What SQL groups by. Scores become the number of their bucket. */
function keyOf(name: string): string {
  if (name === "outcome") return "resolved_outcome";
  if (name === "month") return "strftime(moment, '%Y-%m')";
  if (labels.includes(name)) return name;
  return name === "composite" ? "least((composite - 300) // 50, 13)" : `least(${name} // 10, 9)`;
}

async function tallies(sql: DuckDBConnection, name: string, filters: Query): Promise<Row[]> {
  const reader = await sql.runAndReadAll(
    `SELECT (${keyOf(name)})::VARCHAR, count(*)::INTEGER, count(*) FILTER (disputed)::INTEGER
     FROM archive WHERE ${whereOf(filters)} GROUP BY 1`,
  );
  return reader.getRows().map(([value, count, disputed]) => ({ value, count, disputed }) as unknown as Row);
}

function expectedFacet(name: string, rows: readonly Row[], limit: number) {
  const none = { count: 0, disputed: 0 };
  if (labels.includes(name)) {
    const ordered = rows.toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
    const rest = ordered.slice(limit);
    const sum = (key: "count" | "disputed") => rest.reduce((total, row) => total + row[key], 0);
    const other = { count: sum("count"), disputed: sum("disputed") };
    return { distinct: rows.length, buckets: ordered.slice(0, limit), other };
  }
  const found = new Map(rows.map(({ value, ...tally }) => [value, tally]));
  if (name === "month") {
    const months: string[] = [];
    const [first = "", last = ""] = [
      rows.map((row) => row.value).sort()[0],
      rows
        .map((row) => row.value)
        .sort()
        .at(-1),
    ];
    for (let month = first; month !== "" && month <= last; month = nextMonth(month)) months.push(month);
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
