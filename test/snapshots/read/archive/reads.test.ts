import { beforeAll, expect, test } from "vitest";
import { type CompressedPage, rangeOfRuns, runMarkets } from "../../../../snapshots/format/page.ts";
import { idHash } from "../../../../snapshots/index/id-table.ts";
import { evaluate } from "../../../../snapshots/read/archive/evaluate.ts";
import { readLines, readRuns } from "../../../../snapshots/read/archive/lines.ts";
import { findMarket } from "../../../../snapshots/read/archive/market.ts";
import { askPage } from "../../../../snapshots/read/archive/paging.ts";
import { askRows, ndjsonForm } from "../../../../snapshots/read/archive/rows.ts";
import { awaitBudget } from "../../../../snapshots/read/budgets.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { CorruptObjectError } from "../../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import type { ByteRange } from "../../../../snapshots/store/storage.ts";
import { archiveQuery, rowsQuery } from "../../../helpers/archive/query.ts";
import { market, publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

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

const markets = 1200;
const objects = new Map<string, Buffer>();
beforeAll(async () => {
  await publishRecords(
    memoryStorage(objects),
    Array.from({ length: markets }, (_, index) => ({
      ...market(index),
      composite: index % runMarkets === 0 ? 1000 : 500,
    })),
  );
});

/** Readers of the store, empty caches and all reads of pages, by key. `parts` are the objects for reads by range. */
async function open(content = objects, parts = content) {
  const reads: [key: string, range: ByteRange | undefined][] = [];
  const storage = memoryStorage(content);
  const noted = changedStorage(storage, {
    get(key, options) {
      if (key.startsWith(layout.page.prefix)) reads.push([key, options?.range]);
      return (options?.range ? memoryStorage(parts) : storage).get(key, options);
    },
  });
  const catalog = new Catalog(noted, { cacheBytes: 2 ** 24 });
  await catalog.refresh();
  const { archive } = await catalog.snapshot();
  const read = async (ordinals: readonly number[]) =>
    (await (await readLines(archive, ordinals, catalog)).all()).map(String);
  return { reads, read, archive, catalog };
}

/** The same objects, of which one has another byte in a run. */
function damaged({ hash, runs }: CompressedPage, run: number): Map<string, Buffer> {
  const { offset, bytes } = rangeOfRuns(runs, run);
  const stored = Buffer.from(objects.get(layout.page(hash))!);
  stored[offset + (bytes >>> 1)]! ^= 1;
  return new Map([...objects, [layout.page(hash), stored]]);
}

test("single runs of pages are read by range, once, and runs that are most of a page with all of it", async () => {
  const { reads, read, archive } = await open();
  const whole = await (await open()).read(Array.from({ length: markets }, (_, n) => markets - 1 - n));
  const places = Array.from({ length: markets }, (_, n) => ({ ordinal: n, ...archive.locate(n) }));
  const single = places
    .filter(({ line }) => line === 21)
    .map(({ ordinal }) => ordinal)
    .reverse();
  expect(single.length).toBeGreaterThan(3);
  const expected = single.map((ordinal) => whole[markets - 1 - ordinal]!);
  expect(await read(single)).toEqual(expected);
  expect(reads.map(([key]) => key)).toEqual([...new Set(reads.map(([key]) => key))]);
  for (const [key, range] of reads) expect(range!.bytes).toBeLessThanOrEqual(objects.get(key)!.length / 2);
  const before = reads.length;
  expect(await read(single)).toEqual(expected);
  expect(reads.length).toBe(before);
  const { segment, page } = archive.locate(single[0]!);
  const ofPage = places.filter((place) => place.segment === segment && place.page === page);
  await read(ofPage.map(({ ordinal }) => ordinal).reverse());
  expect(reads.slice(before)).toEqual([[layout.page(archive.page(ofPage[0]!).hash), undefined]]);
});

test("a run that says to be larger than a page may be is not read", async () => {
  const { archive, catalog, reads } = await open();
  const page = archive.page(archive.locate(0));
  const huge = {
    ...page,
    bytes: 2 ** 40,
    runs: page.runs.map((run) => ({ ...run, compressedBytes: 2 ** 35 })),
  };
  await expect(readRuns(catalog.objects, [{ page: huge, run: 0 }])).rejects.toThrow(CorruptObjectError);
  expect(reads).toEqual([]);
});

test("a query that spells out its defaults asks for the same page", async () => {
  const { catalog } = await open();
  const tagOf = async (search: string) => (await askPage(catalog, archiveQuery(search))).etag;
  const tag = await tagOf("");
  for (const same of ["page=1", "pageSize=100", "pageSize=100&page=1"]) expect(await tagOf(same)).toBe(tag);
  for (const other of ["page=2", "pageSize=99"]) expect(await tagOf(other)).not.toBe(tag);
});

test("a run that is damaged in what a cache keeps of a page is taken from the whole page", async () => {
  const { archive, read } = await open();
  const ordinal = Array.from({ length: markets }, (_, n) => n).findLast(
    (n) => archive.locate(n).line === 40,
  )!;
  const page = archive.page(archive.locate(ordinal));
  const cached = await open(objects, damaged(page, 2));
  expect(await cached.read([ordinal])).toEqual(await read([ordinal]));
  expect(cached.reads.map(([, range]) => range !== undefined)).toEqual([true, false]);
});

test("a damaged page is named where its run is needed, and does no harm where it is not", async () => {
  const { archive } = await open();
  const at = (line: number) =>
    Array.from({ length: markets }, (_, n) => n).findLast((n) => archive.locate(n).line === line)!;
  const page = archive.page(archive.locate(at(40)));
  const bad = await open(damaged(page, 2));
  await expect(bad.read([at(40)])).rejects.toThrow(
    `${layout.page(page.hash)}: its content does not match its name`,
  );
  expect(await bad.read([at(40) + 20])).toEqual(await (await open()).read([at(40) + 20]));
});

test("rows of an earlier snapshot that is collected while they are read have expired", async () => {
  const content = new Map(objects);
  const { catalog } = await open(content);
  const { snapshotId } = catalog.requireCurrent().commit;
  await publishRecords(memoryStorage(content), [market(1)]);
  await catalog.refresh();
  const plan = await (await askRows(catalog, rowsQuery(`asOf=${snapshotId}`), ndjsonForm)).plan();
  expect(plan.count).toBe(markets);
  for (const key of content.keys()) if (key.startsWith(layout.page.prefix)) content.delete(key);
  await expect(plan.read().next()).rejects.toMatchObject({ code: "SNAPSHOT_EXPIRED" });
});
