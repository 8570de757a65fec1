import { beforeAll, describe, expect, test } from "vitest";
import { filterBytes } from "../../../../snapshots/index/id-table.ts";
import type { Segment } from "../../../../snapshots/index/segment.ts";
import { commitAsOf, readSnapshot } from "../../../../snapshots/read/answer.ts";
import { evaluate } from "../../../../snapshots/read/archive/evaluate.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import {
  type ListedSnapshot,
  type Snapshot,
  SupersededSnapshots,
} from "../../../../snapshots/read/catalog/snapshots.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { partsOf } from "../../../../snapshots/store/objects.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { marketsOf, publishRecords } from "../../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

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
  const commits = await Promise.all(
    [1, 2, 3, rounds - 1].map(async (number) => (await catalog.log.commit(number))!),
  );
  const [listed, ...loaded] = [
    await catalog.listed(commits[0]!),
    ...(await Promise.all(commits.slice(1).map((commit) => catalog.snapshot(commit)))),
  ] as const;
  const [one, two, shared] = loaded as [Snapshot, Snapshot, Snapshot];
  const current = catalog.requireCurrent();
  const bytesOf = (...snapshots: ListedSnapshot[]) => {
    const held = new SupersededSnapshots(Number.POSITIVE_INFINITY);
    for (const snapshot of snapshots) held.set(snapshot);
    return held.bytes;
  };
  const bare = ({ commit, manifest }: ListedSnapshot) => ({ commit, manifest });
  const parts = [...partsOf(listed.manifest).values()];
  const json = parts.reduce((sum, { bytes }) => sum + bytes, listed.commit.manifest.bytes);
  expect(bytesOf(listed)).toBe(2 * json);
  const [segment] = one.archive.segments as [Segment];
  expect(bytesOf(one) - bytesOf(bare(one))).toBe(segment.residentBytes + filterBytes(200));
  // Once for both, and only once however often it is added.
  expect(bytesOf(shared, current)).toBe(bytesOf(shared) + bytesOf(bare(current)));
  expect(bytesOf(bare(one), one, one)).toBe(bytesOf(one));
  expect(bytesOf(listed, one, two)).toBe(bytesOf(listed) + bytesOf(one) + bytesOf(two));

  const numbers = (held: SupersededSnapshots) => held.values().map(({ commit }) => commit.commit);
  const held = new SupersededSnapshots(bytesOf(listed, one, two));
  for (const snapshot of [listed, one, two]) held.set(snapshot);
  expect([numbers(held), held.get(1), held.get(9)]).toEqual([[1, 2, 3], listed, undefined]);
  held.set(shared);
  expect(numbers(held)).not.toContain(2);
  expect(numbers(held).slice(-2)).toEqual([1, rounds - 1]);
  const tight = new SupersededSnapshots(bytesOf(one, two) - 1);
  for (const snapshot of [one, two]) tight.set(snapshot);
  expect(numbers(tight)).toEqual([3]);

  const all = new SupersededSnapshots(Number.POSITIVE_INFINITY);
  for (const snapshot of [listed, one, shared, current]) all.set(snapshot);
  all.share(current);
  expect(numbers(all)).toEqual([1, 2, rounds - 1]);
  expect(all.bytes).toBe(bytesOf(listed, one, bare(shared)));
  all.share(one);
  expect(all.bytes).toBe(bytesOf(listed, shared));
  for (const number of [1, rounds - 1, 7]) all.drop(number);
  expect([numbers(all), all.bytes]).toEqual([[], 0]);
});
