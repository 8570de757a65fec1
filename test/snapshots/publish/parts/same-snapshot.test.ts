import { tmpdir } from "node:os";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PublishOptions } from "../../../../snapshots/publish/publish.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { drawn, type Row, sourcesOfRows } from "../../../helpers/publish/drawn-rows.ts";
import { publishFreely } from "../../../helpers/publish/publish-freely.ts";
import { publishInParts } from "../../../helpers/publish/publish-in-parts.ts";
import { contentOf, memoryStorage } from "../../../helpers/store/storages.ts";

const optionsOf = (storage: Storage, rows: readonly Row[]): PublishOptions => ({
  storage,
  temporaryDirectory: tmpdir(),
  now: () => new Date("2026-03-01T00:00:00.000Z"),
  sources: async () => sourcesOfRows(rows),
});

/** Everything in a store but what a run in parts leaves for itself. */
async function publishedIn(storage: Storage) {
  const content = Object.entries(await contentOf(storage));
  return Object.fromEntries(content.filter(([key]) => !key.startsWith(layout.runPlan.prefix)));
}

describe("a run in parts", () => {
  test("leaves the store as a run of one part does, over nothing and over an older snapshot", async () => {
    const draws = fc.record({
      seed: fc.nat(),
      moments: fc.integer({ min: 1, max: 2000 }),
      share: fc.integer({ min: 20, max: 99 }),
    });
    const compare = async (draw: Parameters<typeof drawn>[0], count: number) => {
      const { first, second } = drawn(draw);
      const whole = memoryStorage(new Map());
      const reports = [];
      const stored: Record<string, string>[] = [];
      for (const rows of [first, second, second]) {
        reports.push(await publishFreely(optionsOf(whole, rows)));
        stored.push(await publishedIn(whole));
      }
      const storage = memoryStorage(new Map());
      for (const [step, rows] of [first, second, second].entries()) {
        const report = await publishInParts(optionsOf(storage, rows), count, `run-${step}`);
        expect(report).toEqual(reports[step]);
        expect(await publishedIn(storage)).toEqual(stored[step]);
      }
    };
    const counts = fc.constantFrom(1, 2, 3, 8);
    await fc.assert(fc.asyncProperty(draws, counts, compare), { numRuns: 3 });
  });
});
