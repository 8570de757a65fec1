import { expect, test } from "vitest";
import { planFor } from "../../../snapshots/sources/duckdb/duckdb.ts";
import { readAll, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

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
])(
  "row groups of $largest MB are read in $megabytes MB by $plan.threads of two threads",
  ({ largest, megabytes, plan }) => {
    expect(planFor(largest, { memoryMegabytes: megabytes, threads: 2 })).toMatchObject(plan);
  },
);
