import { describe, expect, test } from "vitest";
import { formatVersion } from "../../../schemas/versions.ts";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { type CollectOptions, collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { announce } from "../../../snapshots/store/log/gc-records.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { signRecord } from "../../../snapshots/trust/notes/signed-note.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf, sourcesOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, countingStorage, listed } from "../../helpers/store/storages.ts";
import { content, hour, start, storeWith, timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const retention = { keepHours: 48, keepCommits: 1, keepChangesDays: 100_000, dryRun: false };
const keysOf = async (storage: Storage) => (await listed(storage)).map(({ key }) => key).sort();

// Publishers, rollbacks, collections and walks in whatever order their operations come, and collections that are killed,
// are played by the world.

describe("what goes", () => {
  test("is what a dry run tells, neither more nor less, and nothing outside of its prefixes", async () => {
    const { storage, collect, pass, now } = await storeWith(5);
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
    for (const key of foreign) await storage.put(key, Buffer.from("{}"));
    pass(1e5);
    const before = await keysOf(storage);
    const dry = await collect({ keepCommits: 2, dryRun: true });
    expect(await keysOf(storage)).toEqual(before);
    const watched = countingStorage(storage);
    const real = await collectGarbage(watched, { ...retention, keepCommits: 2, now: now() });
    expect(real).toEqual(dry);
    expect(real.keptCommits).toBe(2);
    const gone = new Set(real.deleted.keys);
    expect(await keysOf(storage)).toEqual(before.filter((key) => !gone.has(key)));
    const written = watched.written().filter((key) => !key.startsWith(layout.collecting.prefix));
    expect(written.toSorted()).toEqual([...gone].sort());
    const own = "changes|ids|lists|objects|origins|pages|rows|scores|segments|sources|words";
    const inside = new RegExp(`^(manifests|public/objects|public/api/v1|private/(${own}))/`);
    expect([...gone].filter((key) => !inside.test(key))).toEqual([]);
    const { manifest, segmentList, scoreLines, publicObject, privateObject } = layout;
    const { segment, rows, ids, words, page } = layout;
    const lists = [manifest, segmentList, scoreLines, publicObject, privateObject];
    for (const { prefix } of [...lists, segment, rows, ids, words, page])
      expect([...gone].filter((key) => key.startsWith(prefix)).length, prefix).toBeGreaterThan(1);
    for (const key of foreign) await storage.delete(key);
    const report = { commits: 5, collected: 3, unreferenced: 0, faults: [] };
    expect(await verify(storage, () => {})).toMatchObject(report);
    expect((await collect({ keepCommits: 2 })).deleted.keys).toEqual([]);
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
});

test("a record of a collection stops no run once it is an hour old, even a run that writes nothing", async () => {
  const { storage, now, pass } = timedStore();
  const told = { ...storage, clockAhead: () => now().getTime() - Date.now() };
  for (const n of [0, 1]) await publishRecords(told, content(n), 700 + n);
  await rollback(told, "1", now);
  const resumed = () => publishRecords(told, content(0), 700, { resume: true });
  await announce(storage, "0123456789abcdef", [layout.stableScore("aave")]);
  await expect(resumed()).rejects.toMatchObject({ code: "COLLECTED_MEANWHILE" });
  await storage.put(layout.collecting("fedcba9876543210"), Buffer.alloc(layout.collecting.maxBytes + 1));
  await expect(resumed()).rejects.toThrow(
    /collecting\/fedcba9876543210\.json: it has \d+ bytes.*delete it when no gc is running/,
  );
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

// What names other objects must not stay without those that were put, and listed, before it.
test.for([
  { what: "record of a change", prefix: layout.changeRecord.prefix },
  { what: "manifest", prefix: layout.manifest.prefix },
])("the $what that a publisher puts while a collection lists goes with its parts", async ({ prefix }) => {
  const { storage, pass, collect, now: time } = await storeWith(1);
  const [written, listed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const publisher = changedStorage(storage, {
    async put(key, body) {
      if (key.startsWith(prefix) && key.endsWith(".json")) {
        written.resolve();
        await listed.promise;
        pass(1);
      }
      if (key.startsWith(layout.manifest.prefix)) pass(1);
      return storage.put(key, body);
    },
  });
  const published = publishRecords(publisher, content(1), 701);
  await written.promise;
  const collecting = changedStorage(storage, {
    async *list(place) {
      // It has listed what may go, and reads the log.
      if (place === layout.commit.prefix) {
        listed.resolve();
        await published;
        if (prefix === layout.manifest.prefix && (await newestCommit(storage))?.entry.commit === 2) {
          pass(1);
          await publishRecords(storage, content(2), 702);
        }
      }
      yield* storage.list(place);
    },
  });
  const nothing = { keepHours: 0, keepCommits: 1, keepChangesDays: 0, dryRun: false };
  await collectGarbage(collecting, { ...nothing, now: new Date(time().getTime() + 3 * hour) });
  await collect({ keepChangesDays: 400 });
  expect(await faultsOf(storage)).toEqual([]);
});

test("a publish over a store that lists nothing of what was put says so, and not that a collection runs", async () => {
  const { storage } = await storeWith(1);
  const blind = changedStorage(storage, { async *list() {} });
  await expect(publishRecords(blind, content(1), 701)).rejects.toThrow(
    /^memory: (manifests|p\S+)\/\S+ was put, and the store does not list it: .* see that it may list$/,
  );
});

test("a run whose commit another one followed, and whose snapshot was collected, shows the newest", async () => {
  const { storage, pass, now } = await storeWith(3);
  let followed = false;
  const held = changedStorage(storage, {
    // Read after the commit, before the names.
    async get(key, options) {
      if (key === layout.siteFile("api.json") && !followed) {
        followed = true;
        await rollback(storage, "1", now);
        await collectGarbage(storage, { ...retention, keepHours: 0, now: new Date(start + 1000 * hour) });
      }
      return storage.get(key, options);
    },
  });
  pass(1);
  await rollback(held, "2", now);
  expect(followed).toBe(true);
  expect((await newestCommit(storage))?.entry.commit).toBe(5);
  expect(await faultsOf(storage)).toEqual([]);
});

// Whose commits a collection counts. What it makes of stores that somebody altered is in attacks.test.ts of trust.

const ours = testKey();
const thief = testKey(ours.name, "thief");
const signing = { trusted: [ours] };

/** A store of three commits, signed except where `unsigned` says otherwise, all of them long ago. */
async function storeOf({ unsigned = [] as number[] } = {}) {
  const store = timedStore();
  for (const number of [1, 2, 3]) {
    const signing = unsigned.includes(number) ? {} : { key: ours, over: number - 1 };
    await publishRecords(store.storage, content(number), 700 + number, { signing });
  }
  store.pass(100);
  return store;
}

const keep: Partial<CollectOptions> = { keepHours: 1, keepCommits: 1, signing };

test("commits that were made before the first key count, as a signed one leads to them", async () => {
  const { collect } = await storeOf({ unsigned: [1, 2] });
  expect((await collect({ ...keep, keepCommits: 2 })).keptCommits).toBe(2);
});

test("a log that lost its beginning is not collected unless told where it begins", async () => {
  const store = await storeOf();
  // All that commit 1 reaches is due for deletion only where commit 1 itself does not keep it.
  const keepAll = { ...keep, keepCommits: 3 };
  const first = (await store.storage.get(layout.commit(1)))!;
  const keys = async () => new Set((await listed(store.storage)).map(({ key }) => key));
  const before = await keys();
  await store.storage.delete(layout.commit(1));
  const refusal = (number: number) => ({
    code: "BROKEN_LOG",
    message: expect.stringContaining(`${layout.commit(number)}: it is missing`),
  });
  await expect(store.collect(keepAll)).rejects.toMatchObject(refusal(1));
  await store.storage.put(layout.commit(1), first);
  expect((await store.collect(keepAll)).deleted.keys).toEqual([]);
  expect(await keys()).toEqual(before);

  for (const number of [1, 2]) await store.storage.delete(layout.commit(number));
  await expect(store.collect({ ...keepAll, begins: 2 })).rejects.toMatchObject(refusal(2));
  await expect(store.collect({ ...keepAll, begins: 4 })).rejects.toMatchObject(refusal(4));
  const { deleted } = await store.collect({ ...keepAll, begins: 3 });
  expect(deleted.keys.length).toBeGreaterThan(20);
  expect(await faultsOf(store.storage, { begins: 3 })).toEqual([]);
  expect(await faultsOf(store.storage)).toEqual([
    { key: layout.commit(1), reason: "it is missing, and so are all up to commit 2" },
  ]);
});

test("commits before the one with which the log is said to begin count as far as it leads to them", async () => {
  const { storage, collect } = await storeOf();
  const all = { ...keep, keepCommits: 3 };
  expect((await collect({ ...all, begins: 3 })).deleted.keys).toEqual([]);
  await storage.put(layout.commit(1), Buffer.from("rubbish"));
  expect(await collect({ ...all, begins: 3 })).toMatchObject({ keptCommits: 2 });
  expect(await faultsOf(storage, { begins: 2 })).toEqual([]);
});

test("exports that no trusted key signed are not among the newest that stay", async () => {
  const store = await storeOf();
  const recordOf = (commit: number, snapshotId: string, key?: typeof ours) => {
    const record = { formatVersion, commit, snapshotId, archiveRoot: "0".repeat(64) };
    const files: never[] = [];
    const sign = signRecord(key, `export ${snapshotId}`);
    return seal({ ...record, publishedAt: "2026-03-01T00:00:00.000Z", files }, sign);
  };
  const own = layout.exportRecord("1".repeat(64));
  await store.storage.put(own, recordOf(1, "1".repeat(64), ours));
  for (const digit of ["2", "3"]) {
    const id = digit.repeat(64);
    await store.storage.put(layout.exportRecord(id), recordOf(900, id, digit === "2" ? thief : undefined));
  }
  store.pass(100);
  const { deleted } = await store.collect(keep);
  expect(deleted.keys.filter((key) => key.startsWith(layout.exportRecord.prefix)).sort()).toEqual(
    ["2", "3"].map((digit) => layout.exportRecord(digit.repeat(64))),
  );
});
