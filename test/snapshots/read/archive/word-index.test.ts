import { expect, test } from "vitest";
import { evaluate } from "../../../../snapshots/read/archive/evaluate.ts";
import { awaitBudget } from "../../../../snapshots/read/budgets.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { archiveQuery } from "../../../helpers/archive/query.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

const markets = 100;

test("words of one archive stay in memory, however many snapshots are searched", async () => {
  const storage = countingStorage(memoryStorage(new Map()));
  const catalog = new Catalog(storage, { cacheBytes: 64 * 1024 });
  const snapshots: Snapshot[] = [];
  for (let run = 0; run < 4; run += 1) {
    // Every word occurs once, so that a table takes more than the 26 bytes a market that all tables may take.
    const question = (index: number) => `Common ${sha256(`${run} ${index}`)}`;
    const records = Array.from({ length: markets }, (_, n) => ({ ...market(n), question: question(n) }));
    await publishRecords(storage, records);
    await catalog.refresh();
    snapshots.push(await catalog.snapshot());
  }
  const { filter } = archiveQuery("q=common");
  const wordsRead = () => storage.calls.filter(({ key }) => key.startsWith(layout.words.prefix)).length;
  const search = async (snapshot: Snapshot) => {
    const before = wordsRead();
    expect((await evaluate(snapshot.archive, filter, awaitBudget)).total).toBe(markets);
    return wordsRead() - before;
  };

  expect(await search(snapshots[0]!)).toBe(1);
  const one = catalog.words.residentBytes;
  expect(one).toBeGreaterThan(26 * markets);
  expect(await search(snapshots[0]!)).toBe(0);
  for (const snapshot of snapshots.slice(1)) {
    expect(await search(snapshot)).toBe(1);
    expect(catalog.words.residentBytes).toBeLessThan(1.5 * one);
  }
  await Promise.all(snapshots.map(search));
  expect(catalog.words.residentBytes).toBeLessThan(1.5 * one);
});

test("a search in a small snapshot leaves the words of a large one in memory", async () => {
  const storage = countingStorage(memoryStorage(new Map()));
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 22 });
  const snapshots: Snapshot[] = [];
  for (const count of [3, markets, 4]) {
    const question = (n: number) => `Common ${count} ${n}`;
    const records = Array.from({ length: count }, (_, n) => ({ ...market(n), question: question(n) }));
    await publishRecords(storage, records);
    await catalog.refresh();
    snapshots.push(await catalog.snapshot());
  }
  const [older, large, small] = snapshots as [Snapshot, Snapshot, Snapshot];
  const { filter } = archiveQuery("q=common");
  const wordsRead = async (snapshot: Snapshot, by = filter) => {
    const reads = () => storage.calls.filter(({ key }) => key.startsWith(layout.words.prefix)).length;
    const before = reads();
    await evaluate(snapshot.archive, by, awaitBudget);
    return reads() - before;
  };
  expect(await wordsRead(large, archiveQuery("category=crypto").filter)).toBe(0);
  expect(await wordsRead(large)).toBe(1);
  for (const snapshot of [small, older, small]) await wordsRead(snapshot);
  expect(await wordsRead(large)).toBe(0);
});
