import fc from "fast-check";
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

const written = (runs: readonly Run[]) => fixtures.write({ protocol_scores: queryOf(runs) });

const opsecOf = (details: Map<string, ScoreDetails>, slug: string) => {
  const { change7d, percentile } = details.get(slug)!.dimensions.dimensions[10]!;
  return { change7d, percentile };
};

/** Around the begin of the week that ends with the last, to the microsecond and in several time zones. */
const times = [
  "2025-12-10 12:00:00.228999+00",
  "2025-12-10 13:00:00.229+01",
  "2025-12-10 12:00:00.2299+00",
  "2025-12-10 12:00:00.230+00",
  "2025-12-13 23:59:59.999999-05",
  "2025-12-16 12:00:00+02",
  "2025-12-17 12:00:00.228+00",
  "2025-12-17 12:00:00.2291+00",
];

// That a whole sample's are those of its rows is seen where they are served: test/proxy/routes/endpoints.test.ts.
test("the week of each protocol's own newest run, and ranks with ties, are those of its rows", async () => {
  const slug = fc.nat({ max: 8 }).map((n) => `p${n}`);
  const run = fc.tuple(slug, fc.constantFrom(...times), fc.nat({ max: 20 }));
  // No two runs of a protocol may be of one millisecond.
  const selector = ([slug, time]: Run) => `${slug} ${Date.parse(time)}`;
  const runs = fc.uniqueArray(run, { minLength: 1, maxLength: 40, size: "max", selector });
  const property = fc.asyncProperty(runs, async (drawn) => void (await detailsOf(await written(drawn))));
  await fc.assert(property, { numRuns: 5 });
});

test("a percentile goes up at a half that has no exact fraction of two", async () => {
  // 100 * (23 / 40) is less than 57.5.
  const all = Array.from({ length: 41 }, (_, n): Run => [`p${n}`, times[0]!, (n + 23) % 41]);
  expect(opsecOf(await detailsOf(await written(all)), "p0").percentile).toBe(58);
});

test("runs of a protocol may lie in files of other types, and beside columns unknown to the contract", async () => {
  const run = (slug: string, time: string, opsec: number): Run => [slug, `2025-12-${time}+00`, opsec];
  const early = [run("p", "20 00:00:00", 30), run("q", "21 00:00:00", 80)];
  const late = [run("p", "22 00:00:00.5", 20), run("q", "20 00:00:00", 60)];
  const own = ", 1 AS ms, 'x' AS newest, {'ms': 1} AS runs, [2] AS point, 3 AS newest_ms, 'y' AS scores";
  const wider = `SELECT dimensions, * EXCLUDE (dimensions) REPLACE (bri::BIGINT AS bri, delta::TINYINT AS delta)
    FROM (${queryOf(late)})`;
  const files = { "protocol_scores/a": queryOf(early, own), "protocol_scores/b": wider };
  const details = await detailsOf(await fixtures.write(files));
  expect(opsecOf(details, "p")).toEqual({ change7d: -10, percentile: 0 });
  expect(opsecOf(details, "q")).toEqual({ change7d: 20, percentile: 100 });
});
