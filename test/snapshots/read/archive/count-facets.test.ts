import { expect, test } from "vitest";
import { type Condition, filterFields } from "../../../../schemas/filters.ts";
import { feedVersion } from "../../../../schemas/versions.ts";
import { createLabelTables, type SegmentColumns } from "../../../../snapshots/index/index-reader.ts";
import { retained } from "../../../../snapshots/index/label-table.ts";
import { countFacets } from "../../../../snapshots/read/archive/count-facets.ts";
import { ArchiveIndex, evaluate, Matches } from "../../../../snapshots/read/archive/evaluate.ts";

/** A segment that says to have so many markets; the columns hold its oldest one. */
function segment(markets: number): SegmentColumns {
  return {
    markets,
    fields: filterFields,
    times: { markets: 1, oldest: 0, newest: 0, epochs: [[0, 0]], low: Uint32Array.of(0) },
    integers: new Map([["disputed", { min: 0, max: 1, slices: Uint32Array.of(0) }]]),
    labels: new Map(),
  };
}

const archive = (...sizes: number[]) =>
  new ArchiveIndex(sizes.map(segment), createLabelTables(), {
    name: "It",
    version: feedVersion,
    words: () => Promise.reject(new Error("it has no words")),
  });

/** Notes for how many steps of the event loop's budget somebody waited. */
function noted() {
  const steps: (number | undefined)[] = [];
  return { steps, turn: async (count?: number) => void steps.push(count) };
}

test("counting waits for as many steps as the markets of a segment and the facets take", async () => {
  const columns = archive(2 ** 17, 2 ** 17 + 1, 400_000);
  const one = Uint32Array.of(1);
  const matches = new Matches(
    columns.segments.map(({ markets }) => ({ markets, count: 1, bits: one })),
    columns.starts,
  );
  const [single, double] = [noted(), noted()];
  await countFacets(columns, matches, ["month"], 10, single.turn);
  expect(single.steps).toEqual([1, 2, 4]);
  const found = await countFacets(columns, matches, ["month", "disputed"], 10, double.turn);
  expect(double.steps).toEqual([2, 3, 7]);
  expect(found).toEqual({
    month: { buckets: [{ value: "1970-01", count: 3, disputed: 0 }] },
    disputed: {
      distinct: 1,
      buckets: [{ value: "false", count: 3, disputed: 0 }],
      other: { count: 0, disputed: 0 },
    },
  });
});

test("labels of a facet are looked at in steps, too", async () => {
  const columns = archive();
  columns.tables.outcome.intern("Yes");
  const { steps, turn } = noted();
  const found = await countFacets(columns, new Matches([], [0]), ["outcome"], 10, turn);
  expect([found.outcome, steps]).toMatchObject([{ distinct: 0, buckets: [] }, [1]]);
});

test("filtering waits for a turn before each segment, unless there is nothing to compare", async () => {
  const columns = archive(1, 1);
  const cases: [Condition[], number][] = [
    [[], 0],
    [[{ kind: "time", from: 0, to: 0 }], 2],
  ];
  for (const [conditions, turns] of cases) {
    const { steps, turn } = noted();
    expect((await evaluate(columns, { conditions, words: [] }, turn)).total).toBe(2);
    expect(steps).toHaveLength(turns);
  }
});

test("work during which labels are numbered anew is done again", async () => {
  const columns = archive();
  let runs = 0;
  const found = await columns.settled(async () => {
    runs += 1;
    columns.tables.outcome.intern("Yes");
    if (runs === 1) columns.tables.outcome = retained(columns.tables.outcome, []);
    return runs;
  });
  expect([found, runs]).toEqual([2, 2]);
});
