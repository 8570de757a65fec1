import { tmpdir } from "node:os";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { drawn, endsSegment, idsOf, type Row, sourcesOfRows } from "../../helpers/publish/drawn-rows.ts";
import { publishFreely } from "../../helpers/publish/publish-freely.ts";

import { changedStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";

async function publishRows(storage: Storage, rows: readonly Row[]): Promise<Manifest> {
  const now = () => new Date("2026-03-01T00:00:00.000Z");
  await publishFreely({
    storage,
    temporaryDirectory: tmpdir(),
    now,
    sources: async () => sourcesOfRows(rows),
  });
  return readManifest(storage, (await newestCommit(storage))!);
}

/** What the second content gives on top of the first must be what it gives alone. */
async function expectSameAsAlone(first: readonly Row[], second: readonly Row[]) {
  const storage = memoryStorage(new Map());
  await publishRows(storage, first);
  const pages = new Set((await listed(storage, layout.page.prefix)).map(({ key }) => key));
  const read = new Set<string>();
  const get: Storage["get"] = (key, options) => {
    read.add(key);
    return storage.get(key, options);
  };
  const manifest = await publishRows(changedStorage(storage, { get }), second);
  expect(manifest).toEqual(await publishRows(memoryStorage(new Map()), second));
  return { manifest, pagesRead: pages.intersection(read).size };
}

describe("an increment gives what its sources give alone", () => {
  test("whatever comes, goes, changes and moves, and wherever pages and segments end", async () => {
    const draws = fc.record({
      seed: fc.nat(),
      moments: fc.integer({ min: 1, max: 2000 }),
      share: fc.integer({ min: 20, max: 99 }),
    });
    await fc.assert(
      fc.asyncProperty(draws, async (draw) => {
        const { first, second } = drawn(draw);
        await expectSameAsAlone(first, second);
      }),
      { numRuns: 8 },
    );
  });

  test("where segments end for their size, and an early market moves these ends", async () => {
    const at = (place: number) => Date.UTC(2025, 0, 1) + place * 1000;
    const ids = idsOf(70_000, 3_000_000, (id) => !endsSegment(id));
    const first = ids.map((id, place) => ({ id, resolvedAt: at(place), content: 0 }));
    const early = { id: idsOf(1, 2_000_000, endsSegment)[0]!, resolvedAt: at(999.5), content: 0 };
    const { manifest, pagesRead } = await expectSameAsAlone(first, [early, ...first]);
    expect(manifest.segments.map(({ markets }) => markets > 60_000)).toEqual([false, true, false]);
    // Around that market, and where segments end.
    expect(pagesRead).toBeLessThan(10);
  });
});
