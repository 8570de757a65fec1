import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { askRows, ndjsonForm } from "../../../snapshots/read/archive/rows.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { rowsQuery } from "../../helpers/archive/query.ts";
import { scriptProcess } from "../../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { collectGarbage, peakMemory } from "../../helpers/servers/memory.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const measurable = existsSync("/proc/self/task");

// Sizes far above what does not depend on them.
const [markets, outcomes] = [6_000, 3_000];
test("an archive with a label for every second market is published within 1 GiB and served from 22 bytes a market, and 30 more for ids and words", async () => {
  const [directory, store] = [join(folder, "sources"), join(folder, "store")];
  await writeSample({ directory, markets, outcomes, protocols: 10, days: 2, seed: 5 });
  let peak: Promise<number> | undefined;
  const args = ["publish", "--sources", directory, "--store", store, "--json"];
  const { code, stderr } = await scriptProcess("snapshot", args, { from: folder }, (child) => {
    if (measurable) peak = peakMemory(child);
  });
  expect(code, stderr).toBe(0);
  if (!peak) console.log("the memory of processes cannot be measured on this machine");
  expect(await (peak ?? 0)).toBeLessThan(2 ** 30);

  await collectGarbage();
  const before = process.memoryUsage();
  const catalog = new Catalog(directoryStorage(store), { cacheBytes: 1024 * 1024 });
  await catalog.refresh();
  const snapshot = await catalog.snapshot();
  expect(snapshot.archive.markets).toBe(markets);
  /** What it says of itself, which is what the process took, small change aside. */
  const bytesAMarket = async () => {
    const resident = catalog.residentBytes();
    const grown = () => process.memoryUsage().arrayBuffers - before.arrayBuffers;
    // What other files of this process left may be freed only by a later collection.
    for (let turn = 0; turn === 0 || (turn < 10 && grown() > resident + 2 ** 18); turn += 1)
      await collectGarbage();
    expect(grown()).toBeLessThan(resident + 2 ** 18);
    expect(process.memoryUsage().heapUsed - before.heapUsed).toBeLessThan(2 ** 21);
    return resident / markets;
  };
  const columns = await bytesAMarket();
  await catalog.findId(snapshot, "00000000-0000-4000-8000-000000000000");
  const withIds = await bytesAMarket();
  for (const q of ["will", "the be*", "before"])
    await (await askRows(catalog, rowsQuery(String(new URLSearchParams({ q }))), ndjsonForm)).plan();
  const withWords = await bytesAMarket();
  const told = [columns, withIds, withWords].map((bytes) => bytes.toFixed(1));
  console.log(
    `${markets} markets, ${outcomes} labels: publish peak ${Math.round(Number(await peak) / 2 ** 20)} MiB, ` +
      `index ${told[0]} bytes a market, ${told[1]} with ids, ${told[2]} with words`,
  );
  // Most archives have few labels, and then it is 16.
  expect(columns).toBeLessThan(22);
  expect(withIds).toBeGreaterThan(columns);
  expect(withWords).toBeGreaterThan(withIds);
  expect(withWords - columns).toBeLessThan(30);
});

test("after 20 publishes of other labels a catalog keeps no more than after 8", async () => {
  const storage = memoryStorage(new Map());
  const catalog = new Catalog(storage, { cacheBytes: 1024 });
  const base = recordsOf(0, 12);
  const content = (round: number): HistoricalMarket[] =>
    base.map((market, place) => ({ ...market, resolvedOutcome: `label ${round} of market ${place}` }));
  const resident: number[] = [];
  for (let round = 1; round <= 20; round += 1) {
    await publishRecords(storage, content(round));
    await catalog.refresh();
    // A collection takes this whole process longer than all else here.
    if (round % 3 === 2) await collectGarbage();
    resident.push(catalog.residentBytes());
  }
  const peak = (from: number, to: number) => Math.max(...resident.slice(from, to));
  expect(peak(17, 20)).toBeLessThan(1.2 * peak(5, 8));
  expect(catalog.current()?.commit.commit).toBe(20);
});
