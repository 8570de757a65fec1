import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { filterValuesOf } from "../schemas/filters.ts";
import { HistoricalMarket, ProtocolScore } from "../schemas/records.ts";
import { sourceMarkets, sourceScores } from "./helpers/archive-source-rows.ts";
import { readAll } from "./helpers/sources.ts";

// Real input that is not part of the project; everything here is skipped on machines without it.
const directory = join(import.meta.dirname, "../../shared/data/sources");
const present = existsSync(directory);
if (!present) console.log(`real-data.test.ts is skipped: there is no ${directory}`);

describe.skipIf(!present)("the real sources", () => {
  test("are accepted, and every record equals its row", async () => {
    // Their protocols were scored in November 2026.
    const { markets, scores, warnings } = await readAll(directory, { now: new Date("2026-12-01T00:00:00Z") });
    expect(warnings).toEqual([]);
    const rows = (await sourceMarkets(directory)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    expect(markets).toHaveLength(18_133);
    for (const [index, { json, resolvedAt, values }] of markets.entries()) {
      const record = HistoricalMarket.parse(JSON.parse(json));
      expect(JSON.stringify(record)).toBe(JSON.stringify(rows[index]));
      expect(resolvedAt).toBe(Date.parse(record.resolvedAt));
      expect(values).toEqual(filterValuesOf(record));
    }
    const newest = await sourceScores(directory);
    expect(scores).toHaveLength(103);
    for (const { entry, json } of scores) {
      const record = ProtocolScore.parse(JSON.parse(json));
      expect(JSON.stringify(record)).toBe(JSON.stringify(newest.get(entry.slug)));
    }
  });
});
