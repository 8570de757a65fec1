import { describe, expect, test } from "vitest";
import type { MarketKey } from "../../../snapshots/format/market-line.ts";
import { planFor } from "../../../snapshots/sources/duckdb/duckdb.ts";
import { readAll, sourceFixtures, withSources } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

describe("cut points", () => {
  const cut = (directory: string, parts: number) =>
    withSources(directory, (sources) => sources.cutPoints(parts));
  const before = (a: MarketKey, b: MarketKey) =>
    a.resolvedAt - b.resolvedAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

  /** Sizes of the parts that cut points make of markets. */
  function sizesOf(markets: readonly MarketKey[], points: readonly MarketKey[]) {
    const sizes = Array<number>(points.length + 1).fill(0);
    for (const market of markets) sizes[points.filter((point) => before(point, market) <= 0).length]! += 1;
    return sizes;
  }

  const time = "TIMESTAMPTZ '2025-01-01 00:00:00+00'";
  test.each([
    ["times that differ", "resolved_at"],
    ["one time for all", time],
    ["times equal at milliseconds", `${time} + to_microseconds(n)`],
  ])("equal parts of %s", async (_, resolvedAt) => {
    const markets = `SELECT * REPLACE (${resolvedAt} AS resolved_at) FROM markets`;
    const directory = await fixtures.write({ markets });
    const points = await cut(directory, 8);
    expect(points).toHaveLength(7);
    expect(points.toSorted(before)).toEqual(points);
    expect(sizesOf((await readAll(directory)).markets, points)).toEqual(Array(8).fill(5));
  });

  test("fewer than asked for in a small archive", async () => {
    const directory = await fixtures.write({ markets: "FROM markets WHERE n < 3" });
    expect(await cut(directory, 100)).toHaveLength(2);
    expect(await cut(directory, 1)).toEqual([]);
  });
});

test("a row group too large for the memory allowed raises the limit, and says so", async () => {
  const directory = await fixtures.write({});
  const { markets, warnings } = await readAll(directory, { memoryMegabytes: 161 });
  expect(markets).toHaveLength(40);
  expect(warnings).toEqual([]);
  const tight = await readAll(directory, { memoryMegabytes: 100 });
  expect(tight.warnings).toEqual([expect.stringContaining("the largest row group takes 1 MB")]);
  expect(tight.markets).toEqual(markets);
});

test.each([
  // Measured: two threads read row groups of 16 MB in 600 MB, but those of 39 MB not in 620 MB.
  { largest: 16, megabytes: 600, plan: { megabytes: 600, threads: 2 } },
  { largest: 39, megabytes: 600, plan: { megabytes: 600, threads: 1 } },
  { largest: 39, megabytes: 620, plan: { megabytes: 620, threads: 1 } },
  { largest: 39, megabytes: 900, plan: { megabytes: 900, threads: 2 } },
  { largest: 300, megabytes: 600, plan: { megabytes: 760, threads: 1 } },
  // Measured where known rows are compared: of 42 MB not in 320 MB but in 380, of 79 MB not in 480 but in 540.
  { largest: 42, megabytes: 380, isCompared: true, plan: { megabytes: 380, threads: 1 } },
  { largest: 79, megabytes: 600, isCompared: true, plan: { megabytes: 600, threads: 2 } },
  { largest: 300, megabytes: 600, isCompared: true, plan: { megabytes: 760, threads: 1 } },
])(
  "row groups of $largest MB are read in $megabytes MB by $plan.threads of two threads, compared: $isCompared",
  ({ largest, megabytes, isCompared, plan }) => {
    expect(planFor(largest, { memoryMegabytes: megabytes, threads: 2, isCompared })).toMatchObject(plan);
  },
);
