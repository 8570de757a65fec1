import { join } from "node:path";
import { expect, test } from "vitest";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { headersOf, layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { scoreObjects } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { loadSample, publishCounted, writeTables } from "../../helpers/publish/editable-sources.ts";
import { countingStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
const sources = join(folder, "sources");

const current = async (storage: Storage): Promise<Manifest> =>
  readManifest(storage, (await newestCommit(storage))!);

/** Scores the protocol of the lowest slug again, an hour after the newest run of all. */
const scoreAgain = (dimensions = "dimensions") => `INSERT INTO scores
  SELECT * REPLACE (updated_at + INTERVAL 1 DAY AS updated_at, ${dimensions} AS dimensions) FROM scores
  WHERE slug = (SELECT min(slug) FROM scores) ORDER BY updated_at DESC LIMIT 1`;

// What they tell is seen in test/snapshots/sources/score-details.test.ts, and of which protocol where they are served.
test("histories and dimensions are private objects, counted in the snapshot's size, and stored anew only where a new score changes them", async () => {
  const storage = memoryStorage(new Map());
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 60 });
    const publish = async (to: Storage) => {
      const run = await publishCounted(await writeTables(sql, sources), to, folder);
      expect(await faultsOf(storage)).toEqual([]);
      return run.report;
    };
    const { uploaded } = await publish(storage);
    const objects = await listed(storage, layout.privateObject.prefix);
    expect(objects).toHaveLength(24);
    const headers = { contentType: "application/json", cacheControl: "private, no-store" };
    for (const { key } of objects) expect(headersOf(key)).toEqual(headers);
    const stored = (await listed(storage)).filter(({ key }) => /\/[0-9a-f]{64}/.test(key));
    const bytes = stored.reduce((sum, object) => sum + object.bytes, 0);
    expect((await newestCommit(storage))?.size).toEqual({ objects: stored.length, bytes });
    expect(uploaded).toEqual({ objects: stored.length, bytes });
    for (const { key } of await listed(storage, "public/")) {
      if (key.startsWith(layout.siteFile.prefix)) continue;
      expect(String(await storage.get(key)), key).not.toMatch(/"(points|change7d|percentile)":/);
    }

    const [lowest, highest] = [0, 100].map((opsec) => `struct_update(dimensions, opsec := ${opsec})`);
    for (const [scored, least, most] of [
      ["dimensions", 0, 0],
      [lowest, 0, 11],
      [highest, 11, 11],
    ] as const) {
      const before = new Set(scoreObjects((await current(storage)).scores).keys());
      await sql.run(scoreAgain(scored));
      const counting = countingStorage(storage);
      await publish(counting);
      const fresh = [...scoreObjects((await current(storage)).scores).keys()].filter(
        (key) => !before.has(key),
      );
      const written = counting.written().filter((key) => /\/objects\//.test(key));
      expect(written.toSorted()).toEqual(fresh.toSorted());
      // The list, and of the protocol its record, history and dimensions; of those it has passed their dimensions.
      const others = written.length - 4;
      expect(others).toBeGreaterThanOrEqual(least);
      expect(others).toBeLessThanOrEqual(most);
    }
  });
});
