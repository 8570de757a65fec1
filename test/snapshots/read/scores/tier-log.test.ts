import { expect, test } from "vitest";
import { Tiers } from "../../../../schemas/store/stored-objects.ts";
import { type ForgeTier, forgeScaleNumber } from "../../../../schemas/versions.ts";
import { rollback } from "../../../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { tierLog } from "../../../../snapshots/read/scores.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { publishBook, scoreOf } from "../../../helpers/publish/score-books.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

const day = (n: number) => new Date(Date.UTC(2026, 2, n));

test("tells from the snapshots that are kept what tiers changed in 30 days, and reads only what is new", async () => {
  const storage = memoryStorage(new Map());
  const publish = (at: Date, tiers: Record<string, ForgeTier>) => {
    const book = Object.entries(tiers).map(([slug, forgeScale]) => {
      const record = scoreOf(slug, 500 + at.getUTCDate(), {
        forgeScale,
        forgeScaleNum: forgeScaleNumber(forgeScale),
      });
      return [slug, record] as const;
    });
    return publishBook(storage, new Map(book), { at });
  };
  const counting = countingStorage(storage);
  const catalogs = [
    new Catalog(counting, { cacheBytes: 2 ** 20 }),
    new Catalog(storage, { cacheBytes: 2 ** 20 }),
  ];
  const told = async (catalog: Catalog, log: ReturnType<typeof tierLog>) => {
    await catalog.refresh();
    const { json, hash, snapshotId } = await log();
    expect([snapshotId, hash]).toEqual([catalog.current()?.commit.snapshotId, sha256(json)]);
    // Nothing is worked out again for who asks again.
    expect((await log()).json).toBe(json);
    return Tiers.parse(JSON.parse(String(json)));
  };
  const [followed] = catalogs as [Catalog, Catalog];
  const log = tierLog(followed);

  await publish(day(1), { aave: "RAW", curve: "CAST" });
  await publish(day(11), { aave: "CAST", curve: "CAST" });
  const first = { slug: "aave", from: "RAW", to: "CAST", bri: 511, at: day(11).toISOString() };
  expect(await told(followed, log)).toEqual({
    since: day(1).toISOString(),
    tiers: { aave: "CAST", curve: "CAST" },
    changes: [first],
  });
  // One comes, and one goes.
  await publish(day(12), { curve: "RAW", lido: "FORGED" });
  const before = counting.calls.length;
  const second = { slug: "curve", from: "CAST", to: "RAW", bri: 512, at: day(12).toISOString() };
  expect((await told(followed, log)).changes).toEqual([second, first]);
  const lists = counting.calls.slice(before).filter(({ key }) => key.startsWith("public/objects/"));
  expect(lists.length).toBeLessThanOrEqual(1);
  // What is withdrawn has not been. The same is told by who was not there.
  await rollback(storage, "2", () => day(13));
  const after = { since: day(1).toISOString(), tiers: { aave: "CAST", curve: "CAST" }, changes: [first] };
  for (const catalog of catalogs) expect(await told(catalog, tierLog(catalog))).toEqual(after);
  expect(await told(followed, log)).toEqual(after);
  // Thirty days after the last but one.
  await publish(day(43), { aave: "RAW" });
  expect(await told(followed, log)).toMatchObject({
    since: day(13).toISOString(),
    changes: [{ slug: "aave", from: "CAST", to: "RAW", at: day(43).toISOString() }],
  });
  // Of a snapshot that is collected meanwhile, what came before still holds.
  const missing = layout.publicObject(
    (await followed.listed((await followed.log.commit(4))!)).manifest.scores.list.hash,
  );
  const others = changedStorage(storage, {
    get: async (key, options) => (key === missing ? undefined : storage.get(key, options)),
  });
  const blind = new Catalog(others, { cacheBytes: 2 ** 20 });
  expect(await told(blind, tierLog(blind))).toMatchObject({ tiers: { aave: "RAW" }, changes: [] });
  const unlisted = new Catalog(changedStorage(storage, { async *list() {} }), { cacheBytes: 2 ** 20 });
  expect(await told(unlisted, tierLog(unlisted))).toEqual({
    since: day(43).toISOString(),
    tiers: {},
    changes: [],
  });
});
