import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { ExportList } from "../../../schemas/envelopes.ts";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import type { ExportRecord } from "../../../schemas/store/stored-objects.ts";
import { exportFileName, readExported } from "../../../snapshots/export/export-records.ts";
import { blockRows, blocksPerGroup } from "../../../snapshots/export/parquet-file.ts";
import { readPages } from "../../../snapshots/index/segment.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { firstColumn, withDuckDb } from "../../helpers/archive/sql.ts";
import { serveSample } from "../../helpers/http/archive-served.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { market, publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { publishSources } from "../../helpers/publish/sample-sources.ts";
import { changedStorage, countingStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
/** Exports the newest snapshot, in files of a few pages. */
const exported = (storage: Storage, maxTextBytes = 300_000) =>
  exportNewest(storage, folder, { maxTextBytes });

test("the description of the data names the files of the newest export, until it is withdrawn", async () => {
  const storage = memoryStorage(new Map());
  const named = { api: "https://api.example.org/api/v1", site: "https://scores.example.org/" };
  const day = (date: number, choices = {}) =>
    publishRecords(storage, [market(0), market(date)], 500 + date, {
      now: () => new Date(Date.UTC(2026, 2, date)),
      ...choices,
    });
  const described = async () => {
    expect(await faultsOf(storage, { site: publishedSite })).toEqual([]);
    const { distribution, recordSet } = JSON.parse(String(await storage.get(layout.dataset)));
    const urls = distribution.flatMap(({ contentUrl }: { contentUrl?: string }) => contentUrl ?? []);
    return [recordSet.length, ...urls.slice(1)];
  };
  const of = (snapshotId: string) => [2, `${named.api}/markets/exports/${snapshotId}/markets-0001.parquet`];
  await day(1, { names: named });
  expect(await described()).toEqual([1]);
  const first = await exported(storage);
  expect(await described()).toEqual(of(first.snapshotId));
  await day(2);
  expect(await described()).toEqual(of(first.snapshotId));
  const second = await exported(storage);
  expect(second.snapshotId).not.toBe(first.snapshotId);
  expect(await described()).toEqual(of(second.snapshotId));
  await rollback(storage, "1", () => new Date(Date.UTC(2026, 2, 3)), { site: publishedSite });
  expect(await described()).toEqual(of(first.snapshotId));
  await day(4, { resume: true, names: { api: null } });
  expect(await described()).toEqual([1]);
});

describe("the files of an export", () => {
  const served = serveSample({ markets: 400, seed: 12 });
  let record: ExportRecord;
  let directory: string;

  beforeAll(async () => {
    const { snapshotId, outcome } = await exported(served.storage);
    record = (await readExported(served.storage, layout.exportRecord, snapshotId))!;
    expect([outcome, record.files.length]).toEqual(["exported", expect.any(Number)]);
    directory = join(folder, "downloaded");
    await mkdir(join(directory, "markets"), { recursive: true });
    const { address, headers } = served.proxy;
    const ask = (path: string) => fetch(new URL(path, address), { headers });
    const { exports } = ExportList.parse(await (await ask("/api/v1/markets/exports")).json());
    for (const { name, url } of exports[0]!.files)
      await writeFile(join(directory, "markets", name), await (await ask(url)).bytes());
  });

  /** What a query gives of the files, or of some of them: its first column. */
  const query = (columns: string, files = "*.parquet", rest = "") =>
    withDuckDb(folder, (sql) =>
      firstColumn<string>(
        sql,
        `SELECT ${columns} FROM read_parquet('${directory}/markets/${files}') ${rest}`,
      ),
    );

  test("hold the archive's texts byte for byte, in its order, newest first", async () => {
    const texts = await query("json");
    const lines = (await served.proxy.get({}, wantsRows)).text.split("\n").slice(0, -1);
    expect(texts).toEqual(lines);
    const rows = record.files.map((file) => file.rows);
    expect(rows.length).toBeGreaterThan(4);
    expect(rows.reduce((sum, count) => sum + count)).toBe(lines.length);
  });

  test("have each dimension's score as a column of its own", async () => {
    const differing = marketDimensionKeys.map(
      (key) => `${key} IS DISTINCT FROM list_filter(dimensions, lambda each: each.key = '${key}')[1].score`,
    );
    expect(await query("id", "*.parquet", `WHERE ${differing.join(" OR ")}`)).toEqual([]);
  });

  test("have statistics of what is in them", async () => {
    const names = ["composite", "flagged_count", "resolved_at", "tier", "id", "oracle"];
    const [least, most, nulls] = ["min", "max", "count(*) - count"].map((of) =>
      names.map((name) => `${of}(${name})`),
    );
    const iso = "strftime(resolved_at, '%Y-%m-%dT%H:%M:%S.%gZ') AS resolved_at";
    for (const [index, { stats, rows }] of record.files.entries()) {
      const { minValues, maxValues, nullCount } = stats!;
      const told = [minValues, maxValues, nullCount].flatMap((values) => names.map((name) => values[name]));
      const columns = `concat_ws(' ', count(*), ${[...least!, ...most!, ...nulls!].join()})`;
      const from = `(SELECT * REPLACE (${iso}) FROM '${directory}/markets/${exportFileName(index)}')`;
      const found = await withDuckDb(folder, (sql) => firstColumn(sql, `SELECT ${columns} FROM ${from}`));
      expect(found).toEqual([[rows, ...told].join(" ")]);
      expect(minValues).not.toHaveProperty("json");
    }
  });

  test("can be published again: every typed value is the record's, or the snapshot would be another", async () => {
    const again = join(folder, "again");
    await cp(directory, again, { recursive: true });
    for (const name of ["protocol_scores", "protocol_scores.parquet"])
      await cp(join(served.directory, name), join(again, name), { recursive: true }).catch(() => {});
    const { snapshotId } = await publishSources(again, memoryStorage(new Map()), folder);
    expect(snapshotId).toBe(record.snapshotId);
  });

  test("are compressed with zstd, in row groups of their own statistics", async () => {
    const groups = await withDuckDb(folder, async (sql) => {
      const result = await sql.runAndReadAll(`SELECT DISTINCT compression, stats_min_value IS NOT NULL
        FROM parquet_metadata('${directory}/markets/*.parquet')
        WHERE path_in_schema IN ('id', 'composite', 'resolved_at')`);
      return result.getRows();
    });
    expect(groups).toEqual([["ZSTD", true]]);
  });
});

describe("an export", () => {
  const published = new Map<string, Buffer>();
  let snapshotId: string;
  beforeAll(async () => {
    ({ snapshotId } = await publishRecords(memoryStorage(published), recordsOf(0, 400)));
  });

  /** One with two files. */
  function small() {
    const objects = new Map(published);
    return { objects, storage: memoryStorage(objects) };
  }

  const newest = { ...market(900), resolvedAt: "2029-01-01T00:00:00.000Z" };

  test("uses files of earlier ones where their markets are the same, and does nothing twice", async () => {
    const { storage } = small();
    const { total } = await exported(storage);
    expect(total.objects).toBeGreaterThan(1);
    const counting = countingStorage(storage);
    expect(await exported(counting)).toMatchObject({ outcome: "unchanged", total, uploaded: { objects: 0 } });
    expect(counting.written()).toEqual([]);
    await publishRecords(storage, [newest, ...recordsOf(0, 400)]);
    const next = await exported(storage);
    expect(next).toMatchObject({ outcome: "exported", rows: 401 });
    expect(next.uploaded.objects).toBeLessThan(next.total.objects);
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("makes files again that only an export before the two newest has, which a collection may take", async () => {
    const { storage } = small();
    const { total } = await exported(storage);
    for (const first of [1000, 2000]) {
      await publishRecords(storage, recordsOf(first, first + 20));
      await exported(storage);
    }
    await publishRecords(storage, recordsOf(0, 400));
    expect(await exported(storage)).toMatchObject({ outcome: "exported", uploaded: total });
    // Its record keeps the later number, by which it is one of the newest.
    const before = await exportNewest(storage, folder, { maxTextBytes: 300_000 }, "1");
    expect(before).toMatchObject({ outcome: "unchanged", commit: 1 });
    expect((await readExported(storage, layout.exportRecord, snapshotId))?.commit).toBe(4);
  });

  test("of a damaged archive fails, and nothing is listed", async () => {
    const { objects, storage } = small();
    const key = [...objects.keys()].find((name) => name.startsWith(layout.segment.prefix))!;
    const page = layout.page(readPages(key, objects.get(key)!)[0]!.hash);
    objects.set(page, Buffer.from(objects.get(page)!.map((byte, at) => (at === 99 ? byte ^ 1 : byte))));
    await expect(exported(storage)).rejects.toThrow(page);
    expect(await readExported(storage, layout.exportRecord, snapshotId)).toBeUndefined();
  });

  test("by a store that keeps other bytes than it was given fails", async () => {
    const { storage } = small();
    const lossy = changedStorage(storage, {
      putIfAbsent(key, body) {
        const changed = Buffer.from(body);
        if (key.startsWith(layout.exportFile.prefix)) changed[changed.length >> 1]! ^= 1;
        return storage.putIfAbsent(key, changed);
      },
    });
    await expect(exported(lossy)).rejects.toThrow("does not match its hash");
    expect(await readExported(storage, layout.exportRecord, snapshotId)).toBeUndefined();
  });

  test.each(["gone", "damaged"])(
    "keeps its files while its commit is kept and its record is %s",
    async (how) => {
      const { storage, collect, pass } = timedStore();
      await publishRecords(storage, recordsOf(0, 300), 700);
      await exported(storage);
      const [{ key: record } = { key: "" }] = await listed(storage, layout.exportRecord.prefix);
      const files = await listed(storage, layout.exportFile.prefix);
      const bytes = await storage.get(record, { maxBytes: 1e6 });
      if (how === "gone") await storage.delete(record);
      else await storage.put(record, Buffer.from("{}"));
      pass(100);
      await publishRecords(storage, recordsOf(0, 310), 701);
      await collect({ keepCommits: 2 });
      await storage.put(record, bytes!);
      expect(await listed(storage, layout.exportFile.prefix)).toEqual(files);
      expect(await faultsOf(storage)).toEqual([]);
      await storage.delete(record);
      pass(100);
      await collect({ keepHours: 0, keepCommits: 1 });
      expect(await listed(storage, layout.exportFile.prefix)).toEqual([]);
    },
  );
});

test("row groups have at most 32,768 rows, and at most 64 MiB of text where blocks let them", () => {
  const limit = 64 * 1024 * 1024;
  fc.assert(
    fc.property(fc.array(fc.nat(2 ** 29), { maxLength: 60, size: "max" }), (blocks) => {
      const size = blocksPerGroup(blocks);
      expect(size * blockRows).toBeLessThanOrEqual(32_768);
      const sums = blocks
        .map((_, place) => blocks.slice(place, place + size))
        .filter((_, place) => place % size === 0)
        .map((group) => group.reduce((sum, bytes) => sum + bytes, 0));
      if (size > 1) expect(Math.max(0, ...sums)).toBeLessThanOrEqual(limit);
    }),
  );
  expect(blocksPerGroup(Array(40).fill(1))).toBe(16);
});
