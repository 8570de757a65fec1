import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { describe, expect, test } from "vitest";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { headersOf, layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { readObject, scoreObjects } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { loadSample, publishCounted, writeTables } from "../../helpers/publish/editable-sources.ts";
import { sourceDetails } from "../../helpers/publish/score-details.ts";
import { countingStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
let places = 0;

/** A store, and the tables of a sample with twelve protocols; `publish` publishes them as they are then. */
interface Place {
  sql: DuckDBConnection;
  storage: Storage;
  sources: string;
  publish(to?: Storage): ReturnType<typeof publishCounted>;
}

async function inPlace(work: (place: Place) => Promise<void>): Promise<void> {
  places += 1;
  const place = join(folder, `place-${places}`);
  const storage = memoryStorage(new Map());
  const sources = join(place, "sources");
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 60 });
    const publish: Place["publish"] = async (to = storage) =>
      publishCounted(await writeTables(sql, sources), to, folder);
    await work({ sql, storage, sources, publish });
  });
}

const current = async (storage: Storage): Promise<Manifest> =>
  readManifest(storage, (await newestCommit(storage))!);

/** The current snapshot tells of every protocol what its sources give. */
async function expectDetails(storage: Storage, sources: string): Promise<void> {
  const { histories, dimensions } = (await current(storage)).scores;
  const expected = await sourceDetails(sources);
  expect(Object.keys(histories)).toEqual([...expected.keys()].sort());
  expect(Object.keys(dimensions)).toEqual(Object.keys(histories));
  const read = async (ref: Manifest["scores"]["list"]) =>
    JSON.parse(String(await readObject(storage, layout.privateObject(ref.hash), ref)));
  for (const [slug, details] of expected) {
    expect(await read(histories[slug]!)).toEqual(details.history);
    expect(await read(dimensions[slug]!)).toEqual(details.dimensions);
  }
  expect(await faultsOf(storage)).toEqual([]);
}

/** Scores the protocol of the lowest slug again, an hour after the newest run of all. */
const scoreAgain = (dimensions = "dimensions") => `INSERT INTO scores
  SELECT * REPLACE (updated_at + INTERVAL 1 DAY AS updated_at, ${dimensions} AS dimensions) FROM scores
  WHERE slug = (SELECT min(slug) FROM scores) ORDER BY updated_at DESC LIMIT 1`;

describe("histories and dimensions", () => {
  test("are private objects of the snapshot, counted in its size, and unknown to the public tree", async () => {
    await inPlace(async ({ storage, sources, publish }) => {
      const { report } = await publish();
      await expectDetails(storage, sources);
      const objects = await listed(storage, layout.privateObject.prefix);
      expect(objects).toHaveLength(24);
      for (const { key } of objects) {
        expect(headersOf(key)).toEqual({
          contentType: "application/json",
          cacheControl: "private, no-store",
        });
      }
      const stored = (await listed(storage)).filter(({ key }) => /\/[0-9a-f]{64}/.test(key));
      const bytes = stored.reduce((sum, object) => sum + object.bytes, 0);
      expect((await newestCommit(storage))?.size).toEqual({ objects: stored.length, bytes });
      expect(report.uploaded).toEqual({ objects: stored.length, bytes });
      for (const { key } of await listed(storage, "public/")) {
        if (key.startsWith(layout.siteFile.prefix)) continue;
        expect(String(await storage.get(key)), key).not.toMatch(/"(points|change7d|percentile)":/);
      }
    });
  });

  test("are stored anew only where one protocol's new score changes them", async () => {
    await inPlace(async ({ sql, storage, sources, publish }) => {
      await publish();
      const parts = { list: 1, records: 1, histories: 1, dimensions: 1 };
      const [lowest, highest] = [0, 100].map((opsec) => `struct_update(dimensions, opsec := ${opsec})`);
      for (const [scored, passed] of [
        ["dimensions", 0],
        [lowest, undefined],
        [highest, 11],
      ] as const) {
        const before = new Set(scoreObjects((await current(storage)).scores).keys());
        await sql.run(scoreAgain(scored));
        const counting = countingStorage(storage);
        await publish(counting);
        await expectDetails(storage, sources);
        const manifest = await current(storage);
        const fresh = [...scoreObjects(manifest.scores).keys()].filter((key) => !before.has(key));
        const written = counting.written().filter((key) => /\/objects\//.test(key));
        expect(written.toSorted()).toEqual(fresh.toSorted());
        const others = written.length - Object.values(parts).reduce((sum, count) => sum + count, 0);
        if (passed === undefined) expect(others).toBeLessThanOrEqual(11);
        else expect(others).toBe(passed);
      }
    });
  });
});
