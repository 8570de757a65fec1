import { tmpdir } from "node:os";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PublishOptions } from "../../../../snapshots/publish/publish.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { drawn, endsSegment, idsOf, type Row, sourcesOfRows } from "../../../helpers/publish/drawn-rows.ts";
import { publishFreely, publishInParts } from "../../../helpers/publish/publish-freely.ts";
import { contentOf, countingStorage, listed, memoryStorage } from "../../../helpers/store/storages.ts";

const optionsOf = (storage: Storage, rows: readonly Row[]): PublishOptions => ({
  storage,
  temporaryDirectory: tmpdir(),
  now: () => new Date("2026-03-01T00:00:00.000Z"),
  sources: async () => sourcesOfRows(rows),
});

const newStore = () => memoryStorage(new Map());
const manifestOf = async (storage: Storage) => readManifest(storage, (await newestCommit(storage))!);

test("a run in parts leaves the store as one of one part does, and an increment what its sources give alone", async () => {
  const draws = fc.record({
    seed: fc.nat(),
    moments: fc.integer({ min: 1, max: 2000 }),
    share: fc.integer({ min: 20, max: 99 }),
  });
  const compare = async (draw: Parameters<typeof drawn>[0], count: number) => {
    const { first, second } = drawn(draw);
    const [whole, alone, parts] = [newStore(), newStore(), newStore()];
    for (const [step, rows] of [first, second, second].entries()) {
      const report = await publishFreely(optionsOf(whole, rows));
      expect(await publishInParts(optionsOf(parts, rows), count, `run-${step}`)).toEqual(report);
      expect(await contentOf(parts)).toEqual(await contentOf(whole));
    }
    await publishFreely(optionsOf(alone, second));
    expect(await manifestOf(whole)).toEqual(await manifestOf(alone));
  };
  const counts = fc.constantFrom(1, 2, 3, 8);
  await fc.assert(fc.asyncProperty(draws, counts, compare), { numRuns: 4 });
});

test("an increment gives that where segments end for their size, and an early market moves these ends", async () => {
  const at = (place: number) => Date.UTC(2025, 0, 1) + place * 1000;
  const ids = idsOf(70_000, 3_000_000, (id) => !endsSegment(id));
  const first = ids.map((id, place) => ({ id, resolvedAt: at(place), content: 0 }));
  const early = { id: idsOf(1, 2_000_000, endsSegment)[0]!, resolvedAt: at(999.5), content: 0 };
  const [storage, alone] = [newStore(), newStore()];
  await publishFreely(optionsOf(storage, first));
  const pages = new Set((await listed(storage, layout.page.prefix)).map(({ key }) => key));
  const counting = countingStorage(storage);
  for (const store of [counting, alone]) await publishFreely(optionsOf(store, [early, ...first]));
  const manifest = await manifestOf(storage);
  expect(manifest).toEqual(await manifestOf(alone));
  expect(manifest.segments.map(({ markets }) => markets > 60_000)).toEqual([false, true, false]);
  // Around that market, and where segments end.
  const read = new Set(counting.calls.flatMap(({ operation, key }) => (operation === "get" ? [key] : [])));
  expect(pages.intersection(read).size).toBeLessThan(10);
});
