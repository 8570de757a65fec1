import { beforeAll, describe, expect, test } from "vitest";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { CommitLog } from "../../../../snapshots/read/catalog/commit-log.ts";
import { openPublicLog, proveCommit } from "../../../../snapshots/read/catalog/public-log.ts";
import { CorruptObjectError, MissingObjectError } from "../../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { newestCommit, publicationTime } from "../../../../snapshots/store/log/commits.ts";
import { seal } from "../../../../snapshots/store/objects.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../../snapshots/trust/log/log-reader.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { append, timeOf } from "../../../helpers/store/appended-commits.ts";
import { testKey } from "../../../helpers/store/signing.ts";
import {
  aroundCalls,
  changedStorage,
  countingStorage,
  faultyStorage,
  memoryStorage,
} from "../../../helpers/store/storages.ts";

/** A store of so many commits, and a log that reads it; how many commits that asked for since this was called last. */
async function logOf(count: number, seed = "") {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  const grow = async (more: number) => {
    for (let n = 0; n < more; n += 1) await append(storage, { seed });
  };
  const underway = { now: 0, most: 0, asked: 0 };
  const faulty = faultyStorage(storage);
  const log = new CommitLog(
    aroundCalls(faulty, async (work) => {
      underway.asked += 1;
      underway.most = Math.max(underway.most, ++underway.now);
      await new Promise(setImmediate);
      underway.now -= 1;
      return work();
    }),
  );
  const takeUp = async () => log.takeUp((await newestCommit(storage))!);
  await grow(count);
  await takeUp();
  const asked = () => {
    const { asked } = underway;
    underway.asked = 0;
    return asked;
  };
  return { storage, objects, faulty, grow, log, takeUp, asked, underway };
}

describe("the log of commits", () => {
  test("tells every commit by number, time and snapshot; fetches each once, only as far back as asked", async () => {
    const { log, asked, underway } = await logOf(100);
    expect((await log.at(timeOf(100)))?.commit).toBe(100);
    expect(asked()).toBe(0);
    expect((await log.entry(90))?.publishedAt).toBe(timeOf(90));
    const near = asked();
    expect(near).toBeLessThan(40);
    const all = [1, 2, 50, 99, 100].map(async (number) => {
      const counts = { markets: number, protocols: 1 };
      expect(await log.entry(number)).toMatchObject({ commit: number, counts });
      expect((await log.at(timeOf(number)))?.commit).toBe(number);
      expect((await log.at(timeOf(number + 0.5)))?.commit).toBe(number);
      const found = await log.find(({ snapshotId }) => snapshotId === sha256(String(number)));
      expect(found?.commit).toBe(number);
    });
    await Promise.all(all);
    expect(near + asked()).toBe(99);
    expect(underway.most).toBeLessThanOrEqual(32);
    expect(await log.at(timeOf(0))).toBeUndefined();
    for (const number of [0, -1, 101]) expect(await log.entry(number)).toBeUndefined();
    const numbers = (await log.believed()).map(({ commit }) => commit);
    expect(numbers).toEqual(Array.from({ length: 100 }, (_, n) => 100 - n));
    expect(asked()).toBe(0);
  });

  test("has nothing before it takes up a commit", async () => {
    const log = new CommitLog((await logOf(1)).storage);
    const found = [await log.entry(1), await log.at(timeOf(9)), await log.believed(), log.isWithdrawn(1)];
    expect(found).toEqual([undefined, undefined, [], false]);
  });

  test("goes on from what it knows when newer commits come, and holds one entry for each", async () => {
    const { grow, log, takeUp, asked } = await logOf(3);
    await log.believed();
    // Those between the two newest ones, and none below.
    for (const more of [70, 2]) {
      await grow(more);
      asked();
      await takeUp();
      const { length } = await log.believed();
      expect([length, asked()]).toEqual([more === 70 ? 73 : 75, more - 1]);
      expect(log.residentBytes).toBe(length * 1000);
    }
  });

  test("believes neither a commit that its successor does not name nor any behind it", async () => {
    const { log, objects } = await logOf(60);
    const { digest: _, ...content } = JSON.parse(String(objects.get(layout.commit(40))));
    objects.set(
      layout.commit(40),
      seal({ ...content, entry: { ...content.entry, publishedAt: timeOf(39) } }),
    );
    expect((await log.entry(41))?.commit).toBe(41);
    await expect(log.entry(40)).rejects.toMatchObject({ cause: expect.any(CorruptObjectError) });
    const since = expect.stringContaining(`before ${timeOf(41)} is damaged`);
    const cause = { message: expect.stringContaining(layout.commit(40)) };
    await expect(log.entry(10)).rejects.toMatchObject({ code: "DAMAGED_LOG", message: since, cause });
    expect((await log.believed()).at(-1)?.commit).toBe(41);
    expect((await log.at(timeOf(45)))?.commit).toBe(45);
    await expect(log.at(timeOf(20))).rejects.toMatchObject({ code: "DAMAGED_LOG" });
  });

  test("does not ask again for what is missing or broken until it takes up the newest commit again", async () => {
    const { objects, log, asked } = await logOf(10);
    const bytes = objects.get(layout.commit(4))!;
    objects.delete(layout.commit(4));
    for (const number of [4, 2]) {
      await expect(log.entry(number)).rejects.toMatchObject({ cause: expect.any(MissingObjectError) });
      expect(asked() > 0).toBe(number === 4);
    }
    objects.set(layout.commit(4), bytes);
    await log.takeUp(log.newest!);
    expect((await log.entry(1))?.commit).toBe(1);
  });

  test("asks again after the store failed", async () => {
    const { log, faulty } = await logOf(5);
    faulty.fails = ({ key }) => key === layout.commit(3);
    await expect(log.entry(1)).rejects.toBeInstanceOf(StorageError);
    expect((await log.entry(4))?.commit).toBe(4);
    faulty.fails = () => false;
    expect((await log.entry(1))?.commit).toBe(1);
  });

  test("forgets all when the newest commit leads to another log", async () => {
    const other = (await logOf(8, "other")).storage;
    // The log of seven, as a reader of the other store sees it.
    const mixed = new CommitLog(other);
    await mixed.takeUp((await newestCommit((await logOf(7)).storage))!);
    await mixed.takeUp((await newestCommit(other))!);
    expect(await mixed.find(({ snapshotId }) => snapshotId === sha256("7"))).toBeUndefined();
    expect((await mixed.believed()).map(({ snapshotId }) => snapshotId)).toEqual(
      Array.from({ length: 8 }, (_, n) => sha256(`other${8 - n}`)),
    );
  });
});

test("the newest commit is found in a few requests whatever commit checked.json names", async () => {
  const { storage, objects } = await logOf(200);
  // The last of them is one that the store lacks.
  for (const commit of [200, 170, 1, 10_000]) {
    objects.set(layout.checked, seal({ checkedAt: timeOf(1), commit, outcome: "published" }));
    const counted = countingStorage(storage);
    expect([commit, (await newestCommit(counted))?.entry.commit]).toEqual([commit, 200]);
    expect(counted.calls.length).toBeLessThan(40);
  }
});

test("the newest of 200,000 commits is found, as of a few", async () => {
  const { storage, objects } = await logOf(1);
  const { digest: _, ...content } = JSON.parse(String(objects.get(layout.commit(1))));
  const newest = seal({ ...content, entry: { ...content.entry, commit: 200_000 } });
  objects.set(layout.commit(200_000), newest);
  const long = changedStorage(storage, {
    async *list() {
      for (let number = 1; number <= 200_000; number += 1)
        yield { key: layout.commit(number), bytes: newest.length, modified: new Date(0), tag: "" };
    },
  });
  expect((await newestCommit(long))?.entry.commit).toBe(200_000);
});

test("a commit's time is never before its predecessor's", async () => {
  const { storage } = await logOf(2);
  const newest = (await newestCommit(storage))!;
  const timeAfter = (current: typeof newest | undefined, now: string) =>
    publicationTime(storage, current, { now: () => new Date(now) });
  expect(timeAfter(undefined, timeOf(0))).toBe(timeOf(0));
  expect(timeAfter(newest, timeOf(0))).toBe(newest.entry.publishedAt);
  expect(timeAfter(newest, timeOf(9))).toBe(timeOf(9));
});

test("a look into the store serves for its time or until there is another commit, unless it failed", async () => {
  const { storage, grow } = await logOf(1);
  let [looks, now, failing] = [0, 1_000_000, false];
  const log = new CommitLog(storage, { now: () => now });
  await log.takeUp((await newestCommit(storage))!);
  const look = async () => {
    looks += 1;
    if (failing) throw new StorageError("no");
    return looks;
  };
  const found = log.recent(look);
  const after = (milliseconds: number) => {
    now += milliseconds;
    return found();
  };
  expect([await after(0), await after(4999), await after(1)]).toEqual([1, 1, 2]);
  // The clock is set back.
  expect([await after(-4999), await after(-1)]).toEqual([2, 3]);
  await grow(1);
  await log.takeUp((await newestCommit(storage))!);
  expect(await after(0)).toBe(4);
  failing = true;
  await expect(after(5000)).rejects.toThrow(StorageError);
  failing = false;
  expect([await after(0), await after(0)]).toEqual([6, 6]);
});

/** A signed store of two commits, whose tile of hashes is this object. */
const published = new Map<string, Buffer>();
const tile = layout.logTile("0/000.p/2");
beforeAll(async () => {
  for (const bri of [1, 2])
    await publishRecords(memoryStorage(published), [market(1)], bri, { signing: { key: testKey() } });
});

/** A reader of a store of its own, in which the tile may be another. */
async function readerOf(bytes = published.get(tile)) {
  const objects = new Map(published);
  if (bytes) objects.set(tile, bytes);
  const storage = faultyStorage(memoryStorage(objects));
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  const publicLog = openPublicLog(storage, catalog.log, readAnyLog(storage));
  const checkpoint = (await publicLog.checkpoint())!;
  const prove = async (number: number, by = checkpoint) =>
    proveCommit(publicLog, (await catalog.log.commit(number))!, by);
  return { objects, storage, checkpoint, prove };
}

describe("that a log has a commit", () => {
  // That it holds for each commit is in test/conformance/log-proofs.test.ts.
  test("is not proven by a checkpoint before it", async () => {
    const { checkpoint, prove } = await readerOf();
    const alone = { commit: 2, checkpoint: null, inclusion: null };
    expect(await prove(2, { ...checkpoint, size: 1 })).toMatchObject(alone);
  });

  test("is proven by the commits where tiles are altered or gone, and by tiles where commits are", async () => {
    for (const bytes of [Buffer.alloc(64, 7), Buffer.alloc(1)])
      expect((await (await readerOf(bytes)).prove(1)).inclusion).toHaveLength(1);
    const without = await readerOf();
    without.objects.delete(tile);
    expect((await without.prove(1)).inclusion).toHaveLength(1);
    const beginning = await readerOf();
    beginning.objects.delete(layout.commit(1));
    expect((await beginning.prove(2)).inclusion).toHaveLength(1);
  });

  test("is not proven where neither commits nor tiles tell, or the store cannot be read", async () => {
    const robbed = async (bytes?: Buffer) => {
      const reader = await readerOf(bytes);
      for (const key of [layout.commit(1), layout.logTile("0/000.p/1")]) reader.objects.delete(key);
      return reader;
    };
    const other = await robbed(Buffer.alloc(64, 7));
    await expect(other.prove(2)).rejects.toThrow("not the tree of 2 commits that was signed");
    const missing = await robbed();
    missing.objects.delete(tile);
    await expect(missing.prove(2)).rejects.toBeInstanceOf(CorruptObjectError);
    const away = await robbed();
    away.storage.fails = ({ key }) => key === tile;
    await expect(away.prove(2)).rejects.toBeInstanceOf(StorageError);
  });
});
