import { expect, test } from "vitest";
import { idHash } from "../../../../snapshots/index/id-table.ts";
import { findMarket } from "../../../../snapshots/read/archive/market.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { market, publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

const cacheBytes = 64 * 1024;
const unknown = (n: number) => market(900_000 + n).id;

test("ids are read once, whoever asks, and then nothing for those that nobody has", async () => {
  const counting = countingStorage(memoryStorage(new Map()));
  await publishRecords(counting, recordsOf(0, 400));
  const catalog = new Catalog(counting, { cacheBytes });
  await catalog.refresh();
  counting.calls.length = 0;
  const find = async (id: string) => findMarket(catalog, await catalog.snapshot(), id);
  const read = () => counting.calls.filter(({ key }) => key.startsWith("private/")).length;
  const before = catalog.residentBytes();
  expect((await catalog.snapshot()).archive.segments.some(({ idFilter }) => idFilter)).toBe(false);
  await Promise.allSettled(Array.from({ length: 50 }, (_, n) => find(unknown(n))));
  const { segments } = catalog.requireCurrent().manifest;
  expect(read()).toBe(segments.length);
  expect(catalog.residentBytes()).toBe(before + 2 * 400);
  for (let n = 0; n < 1000; n += 1)
    await expect(find(unknown(n))).rejects.toMatchObject({ code: "MARKET_NOT_FOUND" });
  // One of 1,700 passes the filter and is looked for among the ids of a segment.
  expect(read()).toBeLessThanOrEqual(segments.length + 5);
});

test("two ids whose hashes begin alike are told apart", async () => {
  // Found by hashing fifty million ids.
  const alike = ["00000000-0000-4000-8000-000000a15ee3", "00000000-0000-4000-8000-000002dd8ef0"] as const;
  expect(idHash(alike[0])).toBe(idHash(alike[1]));
  const storage = memoryStorage(new Map());
  await publishRecords(storage, [
    ...recordsOf(0, 50),
    { ...market(60), id: alike[0] },
    { ...market(61), id: alike[1] },
  ]);
  const catalog = new Catalog(storage, { cacheBytes });
  await catalog.refresh();
  for (const [place, id] of alike.entries())
    expect(JSON.parse(String((await findMarket(catalog, await catalog.snapshot(), id)).line)).slug).toBe(
      market(60 + place).slug,
    );
});
