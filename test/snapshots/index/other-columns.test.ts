import { expect, test } from "vitest";
import { type FilterField, filterFields } from "../../../schemas/filters.ts";
import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { describePublish } from "../../../scripts/snapshot/reports.ts";
import { columnsOf, type IndexRow } from "../../../snapshots/index/index-header.ts";
import { encodeSections, openSections } from "../../../snapshots/index/sections.ts";
import { encodeSegment, readIndexHeader, readPages } from "../../../snapshots/index/segment.ts";
import { diff } from "../../../snapshots/maintain/diff.ts";
import { collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { publishedAt } from "../../../snapshots/read/answer.ts";
import { listSnapshots } from "../../../snapshots/read/archive/counts.ts";
import { changesReader } from "../../../snapshots/read/changes/changes.ts";
import { scoreChangeLog } from "../../../snapshots/read/feed/score-change-log.ts";
import { changesOf } from "../../../snapshots/read/sharing/sharing.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { decodeRows } from "../../helpers/archive/index-rows.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { plainFilter } from "../../helpers/archive/plain-filter.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import {
  newestEntry,
  newestManifest,
  type Objects,
  replaceSegment,
  wordsRefOf,
} from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

const [segmentEnd] = segmentEnds().take(1);
/** Markets of two segments. */
const markets = recordsOf(0, 100).map((market, index) =>
  index === 40 ? { ...market, id: segmentEnd! } : market,
);

type Values = IndexRow["values"];

/** Encodes a segment of the newest snapshot anew, with columns for these fields. Returns its key. */
function encodeAnew(
  objects: Objects,
  index: number,
  fields: readonly FilterField[],
  more: object = {},
): string {
  const ref = newestManifest(objects).segments[index]!;
  const stored = objects.get(layout.segment(ref.hash))!;
  const rows = decodeRows("segment", stored).map(({ resolvedAt, values }): IndexRow => {
    const colour = values.composite % 2 ? "red" : "blue";
    return { resolvedAt, values: { ...values, colour, ...more } as Values };
  });
  const words = wordsRefOf(objects, ref);
  return replaceSegment(
    objects,
    index,
    encodeSegment(readPages("segment", stored), columnsOf(rows), words, fields),
  );
}

/** A store whose segments another version made: with columns for other fields. */
async function storeWith(fields: readonly FilterField[], records = markets) {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  await publishRecords(storage, records);
  const { segments } = newestManifest(objects);
  expect(segments).toHaveLength(2);
  for (const index of segments.keys()) encodeAnew(objects, index, fields);
  return { objects, storage };
}

/** What a proxy over a store is asked. */
async function asked<T>(storage: Storage, ask: (proxy: ArchiveProxy) => Promise<T>): Promise<T> {
  const proxy = await startArchiveProxy(storage);
  try {
    return await ask(proxy);
  } finally {
    await proxy.stop();
  }
}
const totalOf = (storage: Storage, query: Query) =>
  asked(storage, async (proxy) => (await proxy.page(query)).total);

const lacking = filterFields.filter(({ field }) => field !== "weight_version" && field !== "oracle");
const [category] = filterFields;
const colour = { ...category, field: "colour" } as unknown as FilterField;

test("A filter or facet that a snapshot has no index for is refused by name, and everything else answers", async () => {
  const { storage } = await storeWith(lacking);
  await asked(storage, async (proxy) => {
    const { snapshotId, publishedAt } = proxy.catalog.requireCurrent().commit;
    const refused = async (path: string) => {
      const answer = await fetch(proxy.address.replace("historical", path), { headers: proxy.headers });
      const { code, detail, parameter } = (await answer.json()) as Record<string, string>;
      expect([answer.status, code]).toEqual([400, "INVALID_PARAMETER"]);
      expect(detail).toContain(`snapshot ${snapshotId}, published at ${publishedAt}, has no index for`);
      return parameter;
    };
    expect(await refused("historical?weight_version=w1")).toBe("weight_version");
    expect(await refused("historical?max_oracle=50&tier=CAST")).toBe("oracle");
    expect(await refused("facets?by=tier,oracle")).toBe("oracle");
    expect(await refused("facets?by=tier&weight_version=w1")).toBe("weight_version");
    expect((await proxy.page({})).total).toBe(100);
    const low = markets.filter(({ composite }) => composite <= 600).length;
    expect((await proxy.page({ max_composite: "600" })).total).toBe(low);
    expect((await proxy.facets({ by: "tier,composite,month", max_composite: "600" })).total).toBe(low);
  });
  expect(await verify(storage, () => {})).toMatchObject({ faults: [], unchecked: [] });
});

test("A column whose bounds lie within those of its field is as good, and is kept", async () => {
  const records = markets.map((market) => ({ ...market, composite: Math.max(420, market.composite) }));
  const bounds = { min: 400, max: Math.max(...records.map(({ composite }) => composite)) };
  const narrow = filterFields.map((row) => (row.field === "composite" ? { ...row, ...bounds } : row));
  const { storage } = await storeWith(narrow as FilterField[], records);
  const wide = memoryStorage(new Map());
  await publishRecords(wide, records);
  const told = ({ facets, page }: ArchiveProxy) =>
    Promise.all([
      facets({ by: "composite,tier", min_informed: "20" }).then(({ facets }) => facets),
      ...[{ min_composite: "300" }, { max_composite: "399" }, { min_composite: "650" }].map(
        async (query) => (await page(query)).total,
      ),
    ]);
  expect(await asked(storage, told)).toEqual(await asked(wide, told));
  expect(await verify(storage, () => {})).toMatchObject({ faults: [], unchecked: [] });
  expect((await publishRecords(storage, records)).outcome).toBe("unchanged");
});

test("The next publish indexes what is missing in a commit of the same snapshot, and keeps the pages", async () => {
  const { objects, storage } = await storeWith(lacking);
  const before = newestEntry(objects);
  const pages = [...objects.keys()].filter((key) => key.startsWith(layout.page.prefix));
  const report = await publishRecords(storage, markets);
  expect(report).toMatchObject({
    outcome: "published",
    snapshotId: before.snapshotId,
    reindexed: 2,
    changes: { markets: { added: 0, changed: 0, removed: 0 } },
  });
  expect(newestEntry(objects).indexRoot).not.toBe(before.indexRoot);
  expect([...objects.keys()].filter((key) => key.startsWith(layout.page.prefix))).toEqual(pages);
  expect(describePublish(report)).toContain("re-indexed 2 segments that another version made");
  // Two segments, their list, and a manifest.
  expect(report.uploaded.objects).toBe(4);
  expect((await publishRecords(storage, markets)).outcome).toBe("unchanged");
  expect(await totalOf(storage, { max_oracle: "50" })).toBe(plainFilter(markets, { max_oracle: 50 }).length);
  expect((await verify(storage, () => {})).faults).toEqual([]);
});

test("An id means its newest commit that is kept, and not the one that was indexed anew in the night", async () => {
  const { storage } = await storeWith(lacking);
  const publishAt = async (time: string, count = markets.length) => {
    const now = () => new Date(`2026-03-${time}:00:00.000Z`);
    return (await publishRecords(storage, markets.slice(0, count), 700, { now })).snapshotId;
  };
  const id = await publishAt("02T02");
  const lastOfDay = await publishAt("02T03", 99);
  await publishAt("05T12", 98);
  const { nextCursor } = await asked(storage, ({ page }) => page({ asOf: id, pageSize: 10 }));
  const now = new Date("2026-03-05T13:00:00.000Z");
  await collectGarbage(storage, { keepHours: 48, keepCommits: 1, keepDaily: 35, now, dryRun: false });
  const counted = countingStorage(storage);
  await asked(counted, async ({ catalog, page }) => {
    counted.calls.length = 0;
    await page({ asOf: lastOfDay });
    expect(counted.calls.filter(({ operation }) => operation === "list")).toEqual([]);
    const { snapshots } = await listSnapshots(catalog);
    expect(snapshots.map(({ commit }) => commit)).toEqual([4, 3, 1]);
    expect([snapshots[2]!.snapshotId, (await page({ asOf: id })).total]).toEqual([id, 100]);
    expect(await publishedAt(catalog, id)).toBe(Date.parse(snapshots[2]!.publishedAt));
    // A time and a cursor that mean the commit of the night are answered by the one that has the same snapshot.
    for (const asOf of [1, 2].map((hour) => `2026-03-02T0${hour}:30:00Z`))
      expect([asOf, (await page({ asOf })).total]).toEqual([asOf, 100]);
    expect(await page({ cursor: nextCursor! })).toMatchObject({ page: 2, total: 100, count: 10 });
    const changes = changesReader(catalog);
    const payer = { gone: () => false, pay: async () => {} };
    const { commit } = await changes({ since: lastOfDay, until: id, skip: 0 }, payer);
    expect([commit.commit, await catalog.isReadable(commit)]).toEqual([1, true]);
    expect(await scoreChangeLog(catalog).start(id)).toMatchObject({ position: 1, gone: false });
  });
  expect(await diff(storage, id, "4")).toMatchObject({ since: { commit: 1, snapshotId: id } });
  const { entry } = await rollback(storage, id.slice(0, 8), () => now);
  expect(entry).toMatchObject({ commit: 5, snapshotId: id, withdrawn: [[2, 4]] });
});

test("A commit that only indexes anew, or a repair, changes nothing in the exported changes", async () => {
  const { objects, storage } = await storeWith(lacking);
  await exportNewest(storage, folder, { changes: true });
  expect(await publishRecords(storage, markets)).toMatchObject({ commit: 2, reindexed: 2 });
  // Ends the changes that the next run writes before this commit.
  await exportNewest(storage, folder);
  const more = recordsOf(0, 103).map((market, index) => markets[index] ?? market);
  await publishRecords(storage, more);
  await exportNewest(storage, folder, { changes: true });
  const exportedChanges = () =>
    asked(storage, async (proxy) => (await changesOf(proxy, new Map([["startingVersion", "1"]]))).versions);
  const before = await exportedChanges();
  expect(before.map(({ version, kind, files }) => [version, kind, files.map(({ rows }) => rows)])).toEqual([
    [1, "add", [100]],
    [2, "cdf", []],
    [3, "cdf", [3]],
  ]);
  for (const [key, { length }] of objects)
    if (key.startsWith(layout.segment.prefix)) objects.set(key, Buffer.alloc(length));
  const { faults } = await verify(storage, () => {});
  expect(faults).not.toEqual([]);
  // As `verify --repair` does.
  await publishRecords(storage, more, 700, { faulty: new Set(faults.map(({ key }) => key)) });
  await exportNewest(storage, folder, { changes: true });
  expect(await exportedChanges()).toEqual(before);
});

/** Another index header in place of a segment's, as a later version may write it. */
function withIndex(stored: Buffer, change: (header: Record<string, unknown>) => void): Buffer {
  const magic = stored.toString("latin1", 0, 8);
  const { sections, body } = openSections("segment", stored, magic);
  const header = JSON.parse(String(readIndexHeader("segment", stored)));
  change(header);
  const others = Object.entries(sections).filter(([name]) => name !== "index");
  const changed = encodeSections(magic, { formatVersion }, [
    ...others.map(([name, [at, bytes]]) => [name, body.subarray(at, at + bytes)] as const),
    ["index", Buffer.from(JSON.stringify(header))],
  ]);
  return Buffer.from(changed.buffer);
}

const kept = filterFields.slice(0, 3);
test.each([
  // Of a known kind, and of another one.
  ["colour", [...kept, colour, ...filterFields.slice(3)]],
  ["volume", filterFields],
])("a column %s that this version does not know is passed over, and verify says so", async (name, fields) => {
  const { objects, storage } = await storeWith(fields);
  if (name === "volume")
    for (const [index, { hash }] of newestManifest(objects).segments.entries()) {
      const told = withIndex(objects.get(layout.segment(hash))!, (header) => {
        (header.columns as unknown[]).push({ name, kind: "sketch", precision: 12 });
      });
      replaceSegment(objects, index, told);
    }
  const yes = plainFilter(markets, { outcome: "Yes" }).length;
  expect(await totalOf(storage, { outcome: "Yes", min_oracle: "0" })).toBe(yes);
  const before = new Map(objects);
  for (const records of [[], markets])
    await expect(publishRecords(storage, records)).rejects.toMatchObject({
      code: "FOREIGN_FORMAT",
      message: expect.stringMatching(
        `columns that this version does not know \\(${name}\\).*use a newer version`,
      ),
    });
  expect(objects).toEqual(before);
  const { faults, unchecked } = await verify(storage, () => {});
  expect(faults).toEqual([]);
  const reason = "it has columns that this version does not know";
  const keys = newestManifest(objects).segments.map(({ hash }) => layout.segment(hash));
  expect(unchecked.filter(({ key }) => keys.includes(key))).toEqual(keys.map((key) => ({ key, reason })));
  // Those beside it are judged.
  const wrong = encodeAnew(objects, 0, [colour, ...filterFields], { colour: "red", composite: 999 });
  expect((await verify(storage, () => {})).faults).toMatchObject([{ key: wrong }]);
});

test("An index header of another version, and pages of another encoding, are told as not checked", async () => {
  const { objects, storage } = await storeWith(filterFields);
  const [older, newer] = newestManifest(objects).segments as [SegmentRef, SegmentRef];
  const at = (bytes: Buffer, name: string) => {
    const magic = bytes.toString("latin1", 0, 8);
    const { sections, body } = openSections("segment", bytes, magic);
    return body.subarray(sections[name]![0]);
  };
  const laterIndex = Buffer.from(objects.get(layout.segment(older.hash))!);
  at(laterIndex, "index").write('{"version":2');
  const laterPages = Buffer.from(objects.get(layout.segment(newer.hash))!);
  at(laterPages, "pageEncodings")[0] = 1;
  const { unreferenced: before } = await verify(storage, () => {});
  // Sections under the same names may mean something else: nobody answers from them.
  expect(() => decodeRows("segment", laterIndex)).toThrow(
    "it is of version 2, which this program does not know",
  );
  const keys = [replaceSegment(objects, 0, laterIndex), replaceSegment(objects, 1, laterPages)];
  const { faults, unchecked, unreferenced } = await verify(storage, () => {});
  expect(faults).toEqual([]);
  // The manifests, segments and lists that were replaced, and no pages.
  expect(unreferenced).toBe(before + 6);
  expect(unchecked).toEqual([
    { key: keys[0], reason: "its index header is of a version that this program does not know" },
    {
      key: keys[1],
      reason: expect.stringContaining("a page of it has encoding 1, which this version does not know"),
    },
  ]);
  expect(await verify(storage, () => {}, { since: 1 })).toMatchObject({ faults, unchecked, unreferenced });
});
