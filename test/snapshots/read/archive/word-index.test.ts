import { expect, test } from "vitest";
import { evaluate } from "../../../../snapshots/read/archive/evaluate.ts";
import { awaitBudget } from "../../../../snapshots/read/budgets.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { archiveQuery } from "../../../helpers/archive/query.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

/** Snapshots of so many markets each, and how often a search in one reads words; every market has the word common. */
async function searched(counts: readonly number[], cacheBytes: number, question: (at: string) => string) {
  const storage = countingStorage(memoryStorage(new Map()));
  const catalog = new Catalog(storage, { cacheBytes });
  const snapshots: Snapshot[] = [];
  for (const [run, count] of counts.entries()) {
    const asked = (n: number) => `Common ${question(`${run} ${n}`)}`;
    const records = Array.from({ length: count }, (_, n) => ({ ...market(n), question: asked(n) }));
    await publishRecords(storage, records);
    await catalog.refresh();
    snapshots.push(await catalog.snapshot());
  }
  const wordsRead = () => storage.calls.filter(({ key }) => key.startsWith(layout.words.prefix)).length;
  const search = async (run: number, query = "q=common") => {
    const before = wordsRead();
    const { total } = await evaluate(snapshots[run]!.archive, archiveQuery(query).filter, awaitBudget);
    if (query === "q=common") expect(total).toBe(counts[run]);
    return wordsRead() - before;
  };
  return { words: catalog.words, search };
}

test("words of one archive stay in memory, however many snapshots are searched", async () => {
  const markets = 100;
  // Every word occurs once, so that a table takes more than the 26 bytes a market that all tables may take.
  const { words, search } = await searched(Array(4).fill(markets), 64 * 1024, sha256);
  expect(await search(0)).toBe(1);
  const one = words.residentBytes;
  expect(one).toBeGreaterThan(26 * markets);
  expect(await search(0)).toBe(0);
  for (const run of [1, 2, 3]) {
    expect(await search(run)).toBe(1);
    expect(words.residentBytes).toBeLessThan(1.5 * one);
  }
  await Promise.all([0, 1, 2, 3].map((run) => search(run)));
  expect(words.residentBytes).toBeLessThan(1.5 * one);
});

test("a search in a small snapshot leaves the words of a large one in memory", async () => {
  const [older, large, small] = [0, 1, 2];
  const { search } = await searched([3, 100, 4], 2 ** 22, (at) => at);
  expect(await search(large, "category=crypto")).toBe(0);
  expect(await search(large)).toBe(1);
  for (const run of [small, older, small]) await search(run);
  expect(await search(large)).toBe(0);
});
