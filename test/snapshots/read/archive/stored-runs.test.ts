import { beforeAll, expect, test } from "vitest";
import { type CompressedPage, rangeOfRuns, runMarkets } from "../../../../snapshots/format/page.ts";
import { readLines, readRuns } from "../../../../snapshots/read/archive/lines.ts";
import { askPage } from "../../../../snapshots/read/archive/paging.ts";
import { askRows, ndjsonForm } from "../../../../snapshots/read/archive/rows.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { CorruptObjectError } from "../../../../snapshots/store/errors.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import type { ByteRange } from "../../../../snapshots/store/storage.ts";
import { archiveQuery, rowsQuery } from "../../../helpers/archive/query.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { changedStorage, memoryStorage } from "../../../helpers/store/storages.ts";

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
