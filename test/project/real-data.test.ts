import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ProtocolScore } from "../../schemas/records.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { testFields, testFilters } from "../helpers/archive/served-check.ts";
import { sourceScores } from "../helpers/archive/source-rows.ts";
import { serveArchive } from "../helpers/http/archive-served.ts";
import { sourceDetails } from "../helpers/publish/score-details.ts";
import { withSources } from "../helpers/publish/sources.ts";

// Real input that is not part of the project; everything here is skipped on machines without it.
const directory = join(import.meta.dirname, "../../../shared/data/sources");
const present = existsSync(directory);
if (!present) console.log(`real-data.test.ts is skipped: there is no ${directory}`);

describe.skipIf(!present)("the real sources", () => {
  test("are accepted, and every score equals its row", async () => {
    // Their protocols were scored in November 2026. That the markets equal theirs is seen below, where they are served.
    const { scores, warnings } = await withSources(
      directory,
      async (sources) => ({ scores: await sources.scores(), warnings: sources.warnings }),
      { now: new Date("2026-12-01T00:00:00Z") },
    );
    expect(warnings).toEqual([]);
    const newest = await sourceScores(directory);
    expect(scores).toHaveLength(103);
    const details = await sourceDetails(directory);
    for (const { entry, json, history, dimensions } of scores) {
      const record = ProtocolScore.parse(JSON.parse(json));
      expect(JSON.stringify(record)).toBe(JSON.stringify(newest.get(entry.slug)));
      expect(history).toBe(JSON.stringify(details.get(entry.slug)?.history));
      expect(dimensions).toBe(JSON.stringify(details.get(entry.slug)?.dimensions));
    }
  });
});

describe.skipIf(!present)("the archive of the real sources", () => {
  const served = serveArchive(async () => directory);

  test("is published and verifies", async () => {
    expect(served.proxy.catalog.current()?.commit.counts).toMatchObject({
      markets: 18_133,
      protocols: 103,
    });
    expect((await verify(served.storage, () => {})).faults).toEqual([]);
  });

  testFields(served);

  testFilters(served, 4);
});
