import { expect, test } from "vitest";
import { ScoreDimensions, ScoreHistory } from "../../../schemas/envelopes.ts";
import { type ScoreDetails, sourceDetails } from "../../helpers/publish/score-details.ts";
import { readAll, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

/** What the sources of a directory publish, once it was compared with what is expected of them. */
async function detailsOf(directory: string): Promise<Map<string, ScoreDetails>> {
  const expected = await sourceDetails(directory);
  const { scores } = await readAll(directory);
  expect(scores.map(({ entry }) => entry.slug)).toEqual([...expected.keys()].sort());
  for (const { entry, history, dimensions } of scores) {
    expect(history).toBe(JSON.stringify(expected.get(entry.slug)?.history));
    expect(dimensions).toBe(JSON.stringify(expected.get(entry.slug)?.dimensions));
    ScoreHistory.parse(JSON.parse(history));
    ScoreDimensions.parse(JSON.parse(dimensions));
  }
  return expected;
}

/** A scoring run: protocol, time, score of the dimension opsec; all else is the same in every one. */
type Run = readonly [slug: string, time: string, opsec: number];

function queryOf(runs: readonly Run[], more = ""): string {
  const rows = runs.map(([slug, time, opsec]) => `('${slug}', TIMESTAMPTZ '${time}', ${opsec})`);
  return `SELECT s.* REPLACE (r.slug AS slug, r.time AS updated_at,
      struct_update(s.dimensions, opsec := r.opsec) AS dimensions) ${more}
    FROM scores s, (VALUES ${rows.join(", ")}) r(slug, time, opsec) WHERE s.n = 0`;
}

const runsOf = async (runs: readonly Run[]) => fixtures.write({ protocol_scores: queryOf(runs) });

const opsecOf = (details: Map<string, ScoreDetails>, slug: string) => {
  const { change7d, percentile } = details.get(slug)!.dimensions.dimensions[10]!;
  return { change7d, percentile };
};

/** `count` protocols that were scored once, the n-th with `scoreOf(n)`. */
const protocols = (count: number, scoreOf: (n: number) => number): Run[] =>
  Array.from({ length: count }, (_, n) => [`p${n}`, "2025-12-20 00:00:00+00", scoreOf(n)]);

// That a whole sample's are those of its rows is seen where they are served: scores-details.test.ts.

test.for<[string, string, string, number]>([
  ["seven days to the millisecond", "2025-12-10 12:00:00.229+00", "2025-12-17 12:00:00.229+00", 2],
  ["a millisecond more", "2025-12-10 12:00:00.228+00", "2025-12-17 12:00:00.229+00", 1],
  ["more by less than times show", "2025-12-10 12:00:00.2291+00", "2025-12-17 12:00:00.2299+00", 2],
  ["a microsecond into the next one", "2025-12-10 12:00:00.228999+00", "2025-12-17 12:00:00.229+00", 1],
  ["days of 24 hours in every time zone", "2025-10-23 12:00:00+02", "2025-10-30 11:00:00+01", 2],
])("the window is of %s", async ([, older, newest, count]) => {
  const runs: Run[] = [
    ["p", older, 40],
    ["p", newest, 45],
  ];
  const details = await detailsOf(await runsOf(runs));
  expect(details.get("p")?.history.count).toBe(count);
  expect(opsecOf(details, "p").change7d).toBe(count === 2 ? 5 : 0);
});

test("the window ends with each protocol's own newest run, and leaves days out that have none", async () => {
  const runs: Run[] = [
    ["often", "2025-12-01 00:00:00+00", 1],
    ["often", "2025-12-20 00:00:00+00", 50],
    ["often", "2025-12-25 00:00:00+00", 60],
    ["often", "2025-12-26 23:00:00+00", 30],
    ["once", "2025-12-25 00:00:00+00", 7],
    ["formerly", "2025-01-05 00:00:00+00", 20],
    ["formerly", "2025-01-01 00:00:00+00", 100],
  ];
  const details = await detailsOf(await runsOf(runs));
  const told = ["often", "formerly", "once"].map((slug) => ({
    days: details.get(slug)!.history.points.map(({ updatedAt }) => updatedAt.slice(5, 13)),
    ...opsecOf(details, slug),
  }));
  expect(told).toEqual([
    { days: ["12-20T00", "12-25T00", "12-26T23"], change7d: -20, percentile: 100 },
    { days: ["01-01T00", "01-05T00"], change7d: -80, percentile: 50 },
    { days: ["12-25T00"], change7d: 0, percentile: 0 },
  ]);
});

test.for<[string, Run[], number[]]>([
  ["of the only protocol is 0", protocols(1, () => 100), [0]],
  ["is the lowest of those that tie", protocols(5, (n) => [10, 90, 10, 50, 90][n]!), [0, 75, 0, 50, 75]],
  ["is 0 where all tie", protocols(3, () => 7), [0, 0, 0]],
  ["ends in a half that goes up", protocols(9, (n) => n), [0, 13, 25, 38, 50, 63, 75, 88, 100]],
  ["takes a third down and two thirds up", protocols(4, (n) => 100 - n), [100, 67, 33, 0]],
  // From the 23rd on; 100 * (23 / 40) is less than 57.5.
  ["goes up at a half that has no exact fraction of two", protocols(41, (n) => (n + 23) % 41), [58]],
])("a percentile %s", async ([, runs, expected]) => {
  const details = await detailsOf(await runsOf(runs));
  const found = runs.map(([slug]) => opsecOf(details, slug).percentile);
  expect(found.slice(0, expected.length)).toEqual(expected);
});

test("runs of a protocol may lie in files of other types, and beside columns unknown to the contract", async () => {
  const early: Run[] = [
    ["p", "2025-12-20 00:00:00+00", 30],
    ["q", "2025-12-21 00:00:00+00", 80],
  ];
  const late: Run[] = [
    ["p", "2025-12-22 00:00:00.5+00", 20],
    ["q", "2025-12-20 00:00:00+00", 60],
  ];
  const own = ", 1 AS ms, 'x' AS newest, {'ms': 1} AS runs, [2] AS point, 3 AS newest_ms, 'y' AS scores";
  const wider = `SELECT dimensions, * EXCLUDE (dimensions) REPLACE (bri::BIGINT AS bri, delta::TINYINT AS delta)
    FROM (${queryOf(late)})`;
  const details = await detailsOf(
    await fixtures.write({ "protocol_scores/a": queryOf(early, own), "protocol_scores/b": wider }),
  );
  expect(opsecOf(details, "p")).toEqual({ change7d: -10, percentile: 0 });
  expect(opsecOf(details, "q")).toEqual({ change7d: 20, percentile: 100 });
});
