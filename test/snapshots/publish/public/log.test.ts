import { beforeAll, describe, expect, test } from "vitest";
import { decodeEntries, tilePath, tilesOf } from "../../../../snapshots/format/log-tiles.ts";
import { encodeEntries, leafHash, treeHead } from "../../../../snapshots/format/tree.ts";
import { updateLog } from "../../../../snapshots/publish/public/log.ts";
import { listPublicTree } from "../../../../snapshots/publish/public/site.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { newestCommit, readLog } from "../../../../snapshots/store/log/commits.ts";
import { entryOf, LogTree } from "../../../../snapshots/store/log/tiles.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { append, treeBefore } from "../../../helpers/store/appended-commits.ts";
import { Crash, publishNew, publishOld, steppedStorage } from "../../../helpers/store/faulty-store.ts";
import { countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";
import { timedStore } from "../../../helpers/store/timed-store.ts";
import { faultsOf } from "../../../helpers/store/verified.ts";

type Objects = Map<string, Buffer>;

const update = async (storage: Storage, faulty?: ReadonlySet<string>) =>
  updateLog(await listPublicTree(storage, faulty), (await newestCommit(storage))!, {});

/** The commits of the longest log here. */
const history: Objects = new Map();
beforeAll(async () => {
  const storage = memoryStorage(history);
  for (let n = 1; n <= 511; n += 1) await append(storage);
});

/** A store of so many commits, and its log; the log was brought to each of the last `followed` of them. */
async function logged(count: number, followed = 2) {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  for (let n = 1; n <= count; n += 1) {
    objects.set(layout.commit(n), history.get(layout.commit(n))!);
    if (n > count - followed) await update(storage);
  }
  // Known from now on, also without the commits.
  await treeBefore(storage, await newestCommit(storage));
  return { objects, storage };
}

/** Expects the whole log of a store's commits, each tile computed by what the specification says of it. */
async function expectLog(objects: Objects): Promise<void> {
  const entries = (await readLog(memoryStorage(objects))).map(entryOf);
  const leaves = entries.map((entry) => leafHash(entry));
  for (const { level, index, width } of tilesOf(entries.length)) {
    const bytes = objects.get(layout.logTile(tilePath({ level, index, width })));
    const at = (place: number, span: number) => leaves.slice(place * span, (place + 1) * span);
    const places = Array.from({ length: width }, (_, n) => 256 * index + n);
    const stored = level === "entries" ? decodeEntries(bytes!) : bytes;
    const expected =
      level === "entries"
        ? entries.slice(256 * index, 256 * index + width)
        : Buffer.concat(places.map((place) => treeHead(at(place, 256 ** level))));
    expect(stored, `${level}/${index}`).toEqual(expected);
  }
}

const logKeys = (objects: Objects) =>
  [...objects.keys()].filter((key) => key.startsWith(layout.logTile.prefix)).sort();

describe("a run", () => {
  test("brings the log to each size, on both sides of a full tile, and needs few requests for it", async () => {
    const { objects, storage } = await logged(253);
    for (const size of [254, 255, 256, 257, 258]) {
      await append(storage);
      const counted = countingStorage(storage);
      await update(counted);
      await expectLog(objects);
      const reads = counted.calls.filter(({ key }) => key.startsWith(layout.commit.prefix));
      // Of the commits it reads the newest, which no hint names here.
      expect(reads.length, `${size} commits`).toBeLessThanOrEqual(4);
      if (size !== 256) expect(counted.written().length).toBe(2);
    }
    const counted = countingStorage(storage);
    await update(counted);
    expect(counted.written()).toEqual([]);
  });

  test.for([
    [258, "lost", "1/000.p/1 0/000 0/001.p/2 entries/000 entries/001.p/2"],
    [258, "damaged at the end", "0/001.p/2 entries/001.p/2"],
    [258, "damaged, once it is told", "1/000.p/1 0/000 entries/000"],
    [511, "damaged, with the next full tile", "1/000.p/1 0/000 entries/000"],
  ] as const)("over %d commits makes anew what is %s: %s", async ([size, how, paths]) => {
    const { objects: good } = await logged(size, size === 258 ? 1 : 2);
    await expectLog(good);
    for (const path of paths.split(" ")) {
      const objects = new Map(good);
      const storage = memoryStorage(objects);
      const key = layout.logTile(path);
      const damaged = good.get(key)!.map((byte, place) => (place === 20 || place === 50 ? byte ^ 1 : byte));
      if (how === "lost") objects.delete(key);
      else objects.set(key, Buffer.from(damaged));
      if (/next/.test(how)) await append(storage);
      await update(storage, /told/.test(how) ? new Set([key]) : undefined);
      await expectLog(objects);
    }
  });

  test("that is killed before any operation is completed by the next", async () => {
    const { objects: before } = await logged(255, 1);
    await append(memoryStorage(before));
    for (let [n, ended] = [0, false]; !ended; n += 1) {
      const objects = new Map(before);
      const storage = memoryStorage(objects);
      ended = true;
      const dying = steppedStorage(storage, (operation) => {
        ended &&= operation < n;
        if (!ended) throw new Crash();
      });
      await update(dying).catch(() => {});
      await append(storage);
      await update(storage);
      await expectLog(objects);
    }
  });

  test("replaces the log that was there before the store was set back", async () => {
    const { objects, storage } = await logged(260, 10);
    for (let number = 254; number <= 260; number += 1) objects.delete(layout.commit(number));
    for (let n = 254; n <= 262; n += 1) {
      await append(storage, { seed: "other" });
      await update(storage);
      await expectLog(objects);
    }
  });

  test("goes on by the tiles of commits that are gone, and leaves the log as it is without them", async () => {
    const { objects, storage } = await logged(258, 5);
    const whole = new Map(objects);
    for (let number = 1; number < 258; number += 1) objects.delete(layout.commit(number));
    objects.delete(layout.logTile("1/000.p/1"));
    await append(storage);
    await update(storage);
    for (const key of logKeys(whole)) expect(objects.get(key)?.equals(whole.get(key)!), key).toBe(true);
    expect(decodeEntries(objects.get(layout.logTile("entries/001.p/3"))!)).toHaveLength(3);

    // What their entries were nobody can tell any more.
    objects.delete(layout.logTile("entries/000"));
    await append(storage);
    await update(storage);
    expect(objects.has(layout.logTile("entries/000"))).toBe(false);
    expect(decodeEntries(objects.get(layout.logTile("entries/001.p/4"))!)).toHaveLength(4);

    objects.delete(layout.logTile("0/000"));
    await append(storage);
    const before = logKeys(objects);
    await update(storage);
    expect(logKeys(objects)).toEqual(before);
  });

  test("fills the next full tile although commits are gone", async () => {
    const { objects, storage } = await logged(510, 2);
    for (let number = 1; number < 510; number += 1) objects.delete(layout.commit(number));
    for (const [full, size] of [
      [["0/001.p/255"], 511],
      [["entries/001", "0/001", "1/000.p/2"], 512],
      [["entries/002.p/1", "0/002.p/1"], 513],
    ] as const) {
      await append(storage);
      const newest = (await newestCommit(storage))!;
      await update(storage);
      expect(newest.entry.commit).toBe(size);
      for (const path of full) expect([path, objects.has(layout.logTile(path))]).toEqual([path, true]);
      expect((await LogTree.byTiles(storage, newest))?.size).toBe(size);
    }
  });

  test("takes the hash of a commit that is gone from the tiles when its entry is damaged too", async () => {
    const { objects, storage } = await logged(258);
    const hashes = objects.get(layout.logTile("0/001.p/2"))!;
    const bundle = layout.logTile("entries/001.p/2");
    const [, newest] = decodeEntries(objects.get(bundle)!)!;
    objects.set(bundle, encodeEntries([Buffer.from("damaged"), newest!]));
    objects.delete(layout.commit(257));
    await append(storage);
    await update(storage);
    const own = leafHash(entryOf((await newestCommit(storage))!));
    expect(objects.get(layout.logTile("0/001.p/3"))).toEqual(Buffer.concat([hashes, own]));
  });
});

test("a collection takes the partial tiles that the log has filled, and no others", async () => {
  const { storage: timed, collect, pass } = timedStore();
  for (let n = 1; n <= 256; n += 1) await append(timed);
  await update(timed);
  await publishOld(timed);
  const put = (path: string) => timed.put(layout.logTile(path), Buffer.from("hashes"));
  // The full one after them is none of this log: whoever can write may have put it there.
  for (const path of ["0/000.p/200", "0/000.p/255", "0/001", "0/001.p/2"]) await put(path);
  pass(48);
  const { deleted } = await collect({ keepHours: 1 });
  expect(deleted.keys.sort()).toEqual(["0/000.p/200", "0/000.p/255"].map((path) => layout.logTile(path)));
});

// What it finds of tiles that are lost or altered is in test/snapshots/verify and test/snapshots/trust/attacks.txt.
test("verify lets tiles of later commits be, and names what is no tile, or of commits that are gone", async () => {
  const objects: Objects = new Map();
  await publishOld(memoryStorage(objects));
  await publishNew(memoryStorage(objects));
  const first = objects.get(layout.logTile("0/000.p/1"))!;
  const faultsWith = async (path: string, bytes: Buffer) =>
    (await faultsOf(memoryStorage(new Map(objects).set(layout.logTile(path), bytes)))).map((fault) =>
      JSON.stringify(fault),
    );
  const one = (...words: string[]) => [expect.stringMatching(words.join(".*"))];
  expect(await faultsWith("0/000.p/3", first)).toEqual([]);
  expect(await faultsWith("0/0", first)).toEqual(one("0/0", "no objects with such names"));
  objects.delete(layout.commit(1));
  // What it said is still known from the entries.
  expect(await faultsWith("0/000.p/9", first)).toEqual(one("commits/0000000001.json", "it is missing"));
  expect(await faultsWith("0/000.p/2", Buffer.alloc(64))).toEqual(
    expect.arrayContaining(one("0/000.p/2", "put what is gone of them back")),
  );
});
