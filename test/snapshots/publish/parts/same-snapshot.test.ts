import { tmpdir } from "node:os";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PublishOptions } from "../../../../snapshots/publish/publish.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../../snapshots/store/log/commits.ts";
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

test("a run in parts leaves the store as one of one part does, and an increment what its sources give alone", async () => {
  const draws = fc.record({
    seed: fc.nat(),
    moments: fc.integer({ min: 1, max: 2000 }),
    share: fc.integer({ min: 20, max: 99 }),
  });
  const compare = async (draw: Parameters<typeof drawn>[0], count: number) => {
    const { first, second } = drawn(draw);
    const [whole, alone, parts] = [1, 2, 3].map(() => memoryStorage(new Map())) as [
      Storage,
      Storage,
      Storage,
    ];
    for (const [step, rows] of [first, second, second].entries()) {
      const report = await publishFreely(optionsOf(whole, rows));
      expect(await publishInParts(optionsOf(parts, rows), count, `run-${step}`)).toEqual(report);
      expect(await publishedIn(parts)).toEqual(await publishedIn(whole));
    }
    await publishFreely(optionsOf(alone, second));
    const manifestOf = async (storage: Storage) => (await newestCommit(storage))!.manifest;
    expect(await manifestOf(whole)).toEqual(await manifestOf(alone));
  };
  const counts = fc.constantFrom(1, 2, 3, 8);
  await fc.assert(fc.asyncProperty(draws, counts, compare), { numRuns: 6 });
});
