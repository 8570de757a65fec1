import { describe, expect, test } from "vitest";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { announce } from "../../../snapshots/store/log/gc-records.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf, sourcesOf } from "../../helpers/publish/records.ts";
import { seenBy } from "../../helpers/store/faulty-store.ts";
import { changedStorage, countingStorage, listed } from "../../helpers/store/storages.ts";
import { content, hour, start, storeWith, timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const retention = { keepHours: 48, keepCommits: 1, keepChangesDays: 100_000, dryRun: false };
const keysOf = async (storage: Storage) => (await listed(storage)).map(({ key }) => key).sort();

// Publishers, rollbacks, collections and walks in whatever order their operations come, and collections that are killed,
// are played by the world.

describe("what goes", () => {
  test("is what a dry run tells, and neither more nor less", async () => {
    const { storage, collect } = await storeWith(5);
    const before = await keysOf(storage);
    const dry = await collect({ keepCommits: 2, dryRun: true });
    expect(await keysOf(storage)).toEqual(before);
    const real = await collect({ keepCommits: 2 });
    expect(real).toEqual(dry);
    expect(real.keptCommits).toBe(2);
    const gone = new Set(real.deleted.keys);
    expect(await keysOf(storage)).toEqual(before.filter((key) => !gone.has(key)));
    const { manifest, segmentList, scoreLines, publicObject, privateObject } = layout;
    const { segment, rows, ids, words, page } = layout;
    const lists = [manifest, segmentList, scoreLines, publicObject, privateObject];
    for (const { prefix } of [...lists, segment, rows, ids, words, page])
      expect([...gone].filter((key) => key.startsWith(prefix)).length, prefix).toBeGreaterThan(1);
    const report = { commits: 5, collected: 3, unreferenced: 0, faults: [] };
    expect(await verify(storage, () => {})).toMatchObject(report);
    expect((await collect({ keepCommits: 2 })).deleted.keys).toEqual([]);
  });

  test("is nothing outside its prefixes, whatever lies there, and however old it is", async () => {
    const { storage } = await storeWith(3);
    const foreign = [
      layout.key("0123456789abcdef"),
      layout.keyRevocation("0123456789abcdef"),
      "public/other.html",
      "public/api/v2/scores.json",
      "private/notes.txt",
      "private/pagesold/x",
      "backup/manifests/x.json",
      "unknown.json",
    ];
    const put = (key: string) => storage.put(key, Buffer.from("{}"));
    for (const key of foreign) await put(key);
    const own = "changes|ids|lists|objects|origins|pages|rows|scores|segments|sources|words";
    const inside = new RegExp(`^(manifests|public/objects|public/api/v1|private/(${own}))/`);
    const outside = (keys: string[]) => keys.filter((key) => !inside.test(key));
    const before = outside(await keysOf(storage));
    expect(before).toEqual(expect.arrayContaining([...foreign, layout.checked, layout.probe]));
    const watched = countingStorage(storage);
    const now = new Date(start + 1e6 * hour);
    const { deleted } = await collectGarbage(watched, { ...retention, now });
    expect(deleted.keys.length).toBeGreaterThan(10);
    const written = watched.written().filter((key) => !key.startsWith(layout.collecting.prefix));
    expect(written.toSorted()).toEqual(deleted.keys.toSorted());
    expect(outside(await keysOf(storage))).toEqual(before);
    expect(await seenBy(storage)).toBeDefined();
  });

  test("is no unreachable object that is younger than the grace period", async () => {
    const { storage, collect, pass } = await storeWith(2);
    const key = layout.page("0".repeat(64));
    await storage.put(key, Buffer.from("x"));
    pass(47);
    expect(await collect({ keepCommits: 1 })).toMatchObject({ young: 1 });
    expect(await storage.get(key)).toBeDefined();
    pass(2);
    expect((await collect({ keepCommits: 1 })).deleted.keys).toEqual([key]);
  });

  test("is a superseded manifest, however young, with the older pages that it names", async () => {
    const { storage, collect, pass } = timedStore();
    const slow = changedStorage(storage, {
      async put(key, body) {
        if (key.startsWith(layout.manifest.prefix)) pass(20);
        return storage.put(key, body);
      },
    });
    await publishRecords(slow, content(0), 700);
    pass(1);
    await publishRecords(storage, content(1), 701);
    pass(40);
    const { deleted } = await collect({ keepCommits: 1 });
    expect(deleted.keys.some((key) => key.startsWith(layout.segment.prefix))).toBe(true);
    expect(await collect({ keepCommits: 2 })).toMatchObject({ keptCommits: 2, deleted: { keys: [] } });
  });

  test("is found with as many listings however much it is", async () => {
    const listings = async (snapshots: number) => {
      const store = await storeWith(snapshots);
      const watched = countingStorage(store.storage);
      const { deleted } = await collectGarbage(watched, { ...retention, now: new Date(start + 100 * hour) });
      expect(deleted.keys.length).toBeGreaterThan(10 * (snapshots - 1));
      return watched.calls.filter(({ operation }) => operation === "list").length;
    };
    expect(await listings(4)).toBe(await listings(2));
  });

  test.for(["gone", "damaged"])(
    "is no part of a change record that is %s while its commit is kept",
    async (how) => {
      const { storage, collect, pass } = await storeWith(3);
      const [record = "", ...parts] = await changeObjects(storage, (await readCommit(storage, 2))!.changes!);
      expect(parts.length).toBeGreaterThan(0);
      if (how === "gone") await storage.delete(record);
      else await storage.put(record, Buffer.from("{}"));
      pass(100);
      const snapshotsAlone = { keepHours: 0, keepCommits: 1 };
      const { deleted } = await collect(snapshotsAlone);
      expect(deleted.keys.some((key) => key.startsWith(layout.segment.prefix))).toBe(true);
      for (const key of parts) expect([key, await storage.get(key)]).toEqual([key, expect.any(Buffer)]);
      expect((await collect({ ...snapshotsAlone, keepChangesDays: 0 })).deleted.keys).toEqual(
        expect.arrayContaining(parts),
      );
    },
  );

  test("are records of collections that were killed a day ago", async () => {
    const { storage, collect, pass } = await storeWith(2);
    const old = layout.collecting("0123456789abcdef");
    await announce(storage, "0123456789abcdef", [layout.page("0".repeat(64))]);
    pass(23);
    await collect();
    expect(await storage.get(old)).toBeDefined();
    expect(await faultsOf(storage)).toEqual([]);
    pass(2);
    await collect();
    expect(await storage.get(old)).toBeUndefined();
  });

  test("are the public names of protocols that are no longer there", async () => {
    const { storage, collect } = await storeWith(2);
    const gone = layout.stableScore("gone");
    const names = (await listed(storage, layout.stableScore.prefix)).map(({ key }) => key);
    await storage.put(gone, (await storage.get(layout.stableScore("aave")))!);
    expect((await collect({ keepHours: 0, now: new Date(start + 200 * hour) })).deleted.keys).toEqual([gone]);
    expect((await listed(storage, layout.stableScore.prefix)).map(({ key }) => key)).toEqual(names);
  });
});

test("a record of a collection stops no run once it is an hour old, even a run that writes nothing", async () => {
  const { storage, now, pass } = timedStore();
  const told = { ...storage, clockAhead: () => now().getTime() - Date.now() };
  for (const n of [0, 1]) await publishRecords(told, content(n), 700 + n);
  await rollback(told, "1", now);
  await announce(storage, "0123456789abcdef", [layout.stableScore("aave")]);
  await storage.put(layout.collecting("fedcba9876543210"), Buffer.from("rubbish"));
  const resumed = () => publishRecords(told, content(0), 700, { resume: true });
  await expect(resumed()).rejects.toMatchObject({ code: "COLLECTED_MEANWHILE" });
  pass(2);
  expect(await resumed()).toMatchObject({ outcome: "published", commit: 4, uploaded: { objects: 0 } });
});

test("the digests of rows stay for each manifest that names them, also beside the same segment", async () => {
  const { storage, collect, pass } = timedStore();
  const markets = recordsOf(0, 60);
  await publishRecords(storage, markets, 700);
  const before = sourcesOf(markets, 701);
  await publishRecords(storage, markets, 701, {
    sources: async () => ({
      ...before,
      rowDigests: "another",
      async *markets(known) {
        for await (const rows of before.markets(known))
          yield rows.map((row) => ({ ...row, digest: row.digest + 1n }));
      },
    }),
  });
  const both = await listed(storage, layout.rows.prefix);
  expect(both).toHaveLength(2 * (await listed(storage, layout.segment.prefix)).length);
  pass(100);
  await collect({ keepCommits: 2 });
  expect(await listed(storage, layout.rows.prefix)).toEqual(both);
});

test("nothing is deleted by a clock that is a day ahead of the store's", async () => {
  const { storage, collect, pass } = timedStore();
  for (const n of [0, 1]) await publishRecords(storage, content(n), 700 + n);
  pass(72);
  const before = await keysOf(storage);
  const ahead = { ...storage, clockAhead: () => -24 * hour };
  const collecting = collectGarbage(ahead, { ...retention, now: new Date(start + 72 * hour) });
  await expect(collecting).rejects.toThrow(/this machine's clock says .*, and the store's .*; set it right/);
  expect(await keysOf(storage)).toEqual(before);
  expect((await collect({ keepCommits: 1 })).deleted.keys.length).toBeGreaterThan(0);
});
