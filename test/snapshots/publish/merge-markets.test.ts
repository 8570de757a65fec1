import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { endsSegment, idsOf, type Row, sourcesOfRows } from "../../helpers/publish/drawn-rows.ts";
import { publishFreely } from "../../helpers/publish/publish-freely.ts";
import { countingStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";

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

// That an increment gives what its sources give alone, wherever pages end, is seen in parts/same-snapshot.test.ts.
test("an increment gives that where segments end for their size, and an early market moves these ends", async () => {
  const at = (place: number) => Date.UTC(2025, 0, 1) + place * 1000;
  const ids = idsOf(70_000, 3_000_000, (id) => !endsSegment(id));
  const first = ids.map((id, place) => ({ id, resolvedAt: at(place), content: 0 }));
  const early = { id: idsOf(1, 2_000_000, endsSegment)[0]!, resolvedAt: at(999.5), content: 0 };
  const storage = memoryStorage(new Map());
  await publishRows(storage, first);
  const pages = new Set((await listed(storage, layout.page.prefix)).map(({ key }) => key));
  const counting = countingStorage(storage);
  const manifest = await publishRows(counting, [early, ...first]);
  expect(manifest).toEqual(await publishRows(memoryStorage(new Map()), [early, ...first]));
  expect(manifest.segments.map(({ markets }) => markets > 60_000)).toEqual([false, true, false]);
  // Around that market, and where segments end.
  const read = new Set(counting.calls.flatMap(({ operation, key }) => (operation === "get" ? [key] : [])));
  expect(pages.intersection(read).size).toBeLessThan(10);
});
