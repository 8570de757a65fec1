import { beforeAll, describe, expect, test } from "vitest";
import { filterBytes } from "../../../../snapshots/index/id-table.ts";
import type { Segment } from "../../../../snapshots/index/segment.ts";
import { commitAsOf, readSnapshot } from "../../../../snapshots/read/answer.ts";
import { evaluate } from "../../../../snapshots/read/archive/evaluate.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { type ListedSnapshot, SupersededSnapshots } from "../../../../snapshots/read/catalog/snapshots.ts";
import { layout, manifestPrefixes, privateTree, sha256 } from "../../../../snapshots/store/layout.ts";
import { partsOf } from "../../../../snapshots/store/objects.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { marketsOf, publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import {
  aroundCalls,
  countingStorage,
  memoryStorage,
  type StorageCall,
} from "../../../helpers/store/storages.ts";
import { goodStore } from "../../../helpers/store/tamper.ts";

const markets = marketsOf(0, 200);
/** Snapshots of which each has other markets throughout, except for the last two, which differ in their scores only. */
const rounds = 10;
let store: Storage;
let ids: string[];
beforeAll(async () => {
  store = memoryStorage(new Map());
  ids = [];
  for (let round = 0; round < rounds; round += 1) {
    const content = Math.min(round, rounds - 2);
    const rows = markets.map((row, n) => ({ ...row, composite: 300 + ((n * 13 + content) % 700) }));
    ids.push((await publishRecords(store, rows, 500 + round)).snapshotId);
  }
});

async function catalogOver(cacheBytes: number) {
  const storage = countingStorage(store);
  const catalog = new Catalog(storage, { cacheBytes });
  await catalog.refresh();
  storage.calls.length = 0;
  const reads = (prefix: string) => storage.calls.filter(({ key }) => key.startsWith(prefix)).length;
  const marketsAsOf = async (id: string) =>
    readSnapshot(catalog, await commitAsOf(catalog, { snapshotId: id }), async ({ archive, commit }) => [
      (await evaluate(archive, { conditions: [], words: [] }, async () => {})).total,
      commit.snapshotId,
    ]);
  return { catalog, marketsAsOf, reads };
}

describe("superseded snapshots in memory", () => {
  test("take no more than a quarter of the caches' bytes, whichever and however many are asked for", async () => {
    const { catalog, marketsAsOf } = await catalogOver(2 ** 30);
    for (const id of ids) await marketsAsOf(id);
    const all = catalog.supersededBytes();
    expect(all).toBeGreaterThan(6 * 200 * 10);

    const bound = Math.floor(all / 4);
    const small = await catalogOver(4 * bound);
    const order = Array.from({ length: 60 }, (_, n) => ids[(n * 7) % rounds]!);
    const peaks: number[] = [];
    for (const id of order) {
      expect(await small.marketsAsOf(id)).toEqual([200, id]);
      peaks.push(small.catalog.supersededBytes());
    }
    await Promise.all(order.map(small.marketsAsOf));
    peaks.push(small.catalog.supersededBytes());
    expect(Math.max(...peaks)).toBeLessThanOrEqual(bound);
    // The bound is used.
    expect(Math.max(...peaks)).toBeGreaterThan(bound / 2);
    // None at all fits, and every one is answered.
    const tiny = await catalogOver(1);
    for (const id of ids) expect(await tiny.marketsAsOf(id)).toEqual([200, id]);
    expect(tiny.catalog.supersededBytes()).toBe(0);
  });

  test("are loaded once for all who ask at the same time, and not again while they are held", async () => {
    const { marketsAsOf, reads } = await catalogOver(2 ** 30);
    await Promise.all(Array.from({ length: 50 }, () => marketsAsOf(ids[3]!)));
    expect([reads(layout.manifest.prefix), reads(layout.segment.prefix)]).toEqual([1, 1]);
    await marketsAsOf(ids[3]!);
    expect([reads(layout.manifest.prefix), reads(layout.segment.prefix)]).toEqual([1, 1]);
  });
});

test("superseded snapshots are counted by what dropping them frees, and the last used are kept", async () => {
  const { catalog } = await catalogOver(2 ** 30);
  const load = async (number: number) => catalog.snapshot((await catalog.log.commit(number))!);
  const [one, two, shared] = [await load(2), await load(3), await load(rounds - 1)];
  const current = catalog.requireCurrent();
  const holding = (maxBytes: number, snapshots: readonly ListedSnapshot[]) => {
    const held = new SupersededSnapshots(maxBytes);
    for (const snapshot of snapshots) held.set(snapshot);
    return held;
  };
  const bytesOf = (...snapshots: ListedSnapshot[]) => holding(Number.POSITIVE_INFINITY, snapshots).bytes;
  const bare = ({ commit, manifest }: ListedSnapshot) => ({ commit, manifest });
  const parts = [...partsOf(one.manifest).values()];
  const json = parts.reduce((sum, { bytes }) => sum + bytes, one.commit.manifest.bytes);
  expect(bytesOf(bare(one))).toBe(2 * json);
  const [segment] = one.archive.segments as [Segment];
  expect(bytesOf(one)).toBe(2 * json + segment.residentBytes + filterBytes(200));
  expect(bytesOf(bare(one), one, two)).toBe(bytesOf(one) + bytesOf(two));
  // What two of them have is counted once, and what the current one has not at all.
  expect(bytesOf(shared, current)).toBe(bytesOf(shared) + bytesOf(bare(current)));
  const held = holding(bytesOf(one, two, shared) - 1, [one, two]);
  expect([held.get(2), held.get(9)]).toEqual([one, undefined]);
  held.set(shared);
  expect(held.values()).toEqual([one, shared]);
  held.share(current);
  expect(held.bytes).toBe(bytesOf(one, bare(shared)));
  for (const number of [2, rounds - 1, 7]) held.drop(number);
  expect([held.values(), held.bytes]).toEqual([[], 0]);
});

/** The same store, which answers calls of one group only once so many of them have been asked. */
function answeredTogether(
  objects: Map<string, Buffer>,
  groups: readonly { of: (call: StorageCall) => boolean; together: number }[],
) {
  const gates = groups.map((group) => ({ ...group, asked: 0, open: Promise.withResolvers<void>() }));
  return aroundCalls(memoryStorage(objects), async (work, call) => {
    const gate = gates.find(({ of }) => of(call));
    if (gate) {
      gate.asked += 1;
      if (gate.asked === gate.together) gate.open.resolve();
      await gate.open.promise;
    }
    return work();
  });
}

const isUnder =
  (...prefixes: string[]) =>
  ({ key }: StorageCall) =>
    prefixes.some((prefix) => key.startsWith(prefix));

test("a start reads side by side what does not follow from each other", async () => {
  let commitsAsked = 0;
  const storage = answeredTogether(await goodStore(), [
    // The commit that checked.json names and the one after it, which there may be.
    { of: (call) => isUnder(layout.commit.prefix)(call) && ++commitsAsked > 0, together: 2 },
    // checked.json was read before the commits, to find them.
    {
      of: (call) => isUnder(layout.manifest.prefix, layout.checked)(call) && commitsAsked > 0,
      together: 2,
    },
    { of: isUnder(layout.segmentList.prefix, layout.scoreLines.prefix), together: 2 },
    { of: isUnder(layout.segment.prefix), together: 2 },
  ]);
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  expect((await catalog.snapshot()).archive.segments.map(({ markets }) => markets)).toHaveLength(2);
  expect(catalog.requireCurrent().commit.commit).toBe(3);
  expect(catalog.checkedAt()).toBeDefined();
});

test("a publish lists side by side what the store has of the snapshot before", async () => {
  const folders = manifestPrefixes.filter((prefix) => prefix.startsWith(privateTree));
  const isListing = ({ operation, key }: StorageCall) => operation === "list" && folders.includes(key);
  const objects = await goodStore();
  // One answer does not list so many, and each folder is then listed by itself.
  for (let n = 0; n <= 1000; n += 1)
    objects.set(`${layout.page.prefix}${sha256(`${n}`)}.json.gz`, Buffer.from("x"));
  const storage = answeredTogether(objects, [
    { of: isListing, together: folders.length },
    { of: isUnder(layout.segment.prefix), together: 2 },
  ]);
  await publishRecords(storage, recordsOf(0, 118));
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  expect(catalog.requireCurrent().commit.commit).toBe(4);
});
