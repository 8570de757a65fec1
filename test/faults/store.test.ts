import { rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Ready } from "../../schemas/envelopes.ts";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { listCommits, newestCommit } from "../../snapshots/store/log/commits.ts";
import { seal } from "../../snapshots/store/objects.ts";
import { startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, outcome, until } from "../helpers/http/proxy-client.ts";
import { publishArchive, publishRecords, recordsOf } from "../helpers/publish/records.ts";
import {
  expectAllGood,
  expectWhole,
  fill,
  type OldAndNew,
  oldAndNew,
  publishNew,
  publishOld,
  seenBy,
} from "../helpers/store/faulty-store.ts";
import { mountSmallDisk } from "../helpers/store/small-disk.ts";
import { listed, memoryStorage } from "../helpers/store/storages.ts";

const smallDisk = mountSmallDisk();
let snapshots: OldAndNew;
/** A store with both snapshots, the new one current. */
let both: Map<string, Buffer>;

beforeAll(async () => {
  snapshots = await oldAndNew();
  both = new Map(snapshots.store);
  await publishNew(memoryStorage(both));
});

/** The key of the only object under a prefix that came with the new snapshot. */
function newKey(prefix: string): string {
  const keys = [...both.keys()].filter((key) => key.startsWith(prefix) && !snapshots.store.has(key));
  expect(keys).toHaveLength(1);
  return keys[0]!;
}

const damages: [string, (bytes: Buffer) => Buffer][] = [
  ["empty", () => Buffer.alloc(0)],
  ["HTML", () => Buffer.from("<!doctype html><title>503 Service Unavailable</title>")],
  ["cut short", (bytes) => bytes.subarray(0, bytes.length >> 1)],
  ["10 MB long", (bytes) => Buffer.concat([bytes, Buffer.alloc(10 * 1024 * 1024, " ")])],
  [
    "different in one bit",
    (bytes) => {
      const copy = Buffer.from(bytes);
      copy[copy.length >> 1]! ^= 1;
      return copy;
    },
  ],
  ["of another format version", (bytes) => withVersion(bytes, 9)],
];

function withVersion(bytes: Buffer, formatVersion: number): Buffer {
  const text = bytes.toString("latin1");
  if (!text.startsWith("{")) return Buffer.from(text.replace(/^..../s, "PRS9"), "latin1");
  const { digest: _, ...content } = JSON.parse(bytes.toString());
  return seal({ ...content, formatVersion });
}

describe("a reader that meets garbage in place of the new snapshot's", () => {
  const places: [string, () => string][] = [
    ["commit", () => layout.commit(2)],
    ["manifest", () => newKey(layout.manifest.prefix)],
    ["segment", () => newKey(layout.segment.prefix)],
  ];
  const cases = places.flatMap(([name, key]) =>
    damages.map(([damage, harm]) => [name, damage, key, harm] as const),
  );

  test.for(cases)(
    "%s, %s, shows the old one whole, or nothing behind a commit that may have withdrawn it; then the good one",
    async (given) => {
      const [name, , keyOf, harm] = given;
      const key = keyOf();
      const objects = new Map(snapshots.store);
      const storage = memoryStorage(objects);
      const running = await startArchiveProxy(storage);
      for (const [each, bytes] of both) objects.set(each, bytes);
      objects.set(key, harm(both.get(key)!));
      await expect(running.refresh()).rejects.toThrow(key);
      expect(running.catalog.current()?.commit.snapshotId).toBe(snapshots.old);
      expect(await running.page({ pageSize: 500 })).toMatchObject({ total: 40, count: 40 });

      const empty = new Map<string, Buffer>();
      const cold = await startArchiveProxy(memoryStorage(empty));
      for (const [each, bytes] of objects) empty.set(each, bytes);
      await expect(cold.refresh()).rejects.toThrow(key);
      expect(cold.catalog.heldBack()).toContain(key);
      if (name === "commit")
        expect(await cold.problem({})).toMatchObject({ status: 503, code: "SNAPSHOT_UNAVAILABLE" });
      else {
        expect(cold.catalog.current()?.commit.snapshotId).toBe(snapshots.old);
        expect(await cold.page({ pageSize: 500 })).toMatchObject({ total: 40, count: 40 });
      }

      for (const [proxy, store] of [
        [running, objects],
        [cold, empty],
      ] as const) {
        store.set(key, both.get(key)!);
        await proxy.refresh();
        expect(proxy.catalog.current()?.commit.snapshotId).toBe(snapshots.new);
        await proxy.stop();
      }
    },
  );

  test("manifest, named by its hash, of another format version: says both versions", async () => {
    const objects = new Map(both);
    const manifest = withVersion(both.get(newKey(layout.manifest.prefix))!, 7);
    const hash = sha256(manifest);
    const { digest: _, ...commit } = JSON.parse(String(both.get(layout.commit(2))));
    objects.set(layout.manifest(hash), manifest);
    objects.set(layout.commit(2), seal({ ...commit, manifest: { hash, bytes: manifest.length } }));
    const catalog = new Catalog(memoryStorage(objects), { cacheBytes: 1024 });
    await expect(catalog.refresh()).rejects.toThrow("it has format version 7; this reader knows version 4");
    expect(catalog.current()?.commit.snapshotId).toBe(snapshots.old);
  });
});

describe("a proxy that starts where a segment is gone", () => {
  const [scores, archive] = ["/api/v1/scores", "/api/v1/markets/historical"];
  const readyOf = async (proxy: TestProxy) => (await proxy.get("/readyz")).json() as Ready;
  const sampleOf = async (proxy: TestProxy, name: string) =>
    Number(/ (\S+)\n?$/.exec(await proxy.metrics.getSingleMetricAsString(name))?.[1]);

  /** A store of one snapshot or two, without the segments of the newest. */
  async function robbed(before: boolean) {
    const first = await startTestProxy({ empty: !before });
    const { storage } = first;
    const older = new Set((await listed(storage, layout.segment.prefix)).map(({ key }) => key));
    await publishArchive(storage, { markets: 45, bri: 710 });
    const keys = (await listed(storage, layout.segment.prefix)).map(({ key }) => key);
    const robbedOf = new Map<string, Buffer>();
    for (const key of keys.filter((each) => !older.has(each))) {
      robbedOf.set(key, (await storage.get(key))!);
      await storage.delete(key);
    }
    const proxy = await first.another();
    const headers = bearer(await proxy.issue());
    return {
      proxy,
      headers,
      reason: expect.stringMatching(
        new RegExp(`${[...robbedOf.keys()].join("|")}: it is missing; put that object back, publish again`),
      ),
      async putBack() {
        for (const [key, bytes] of robbedOf) await storage.put(key, bytes);
        await until("the newest to be shown whole", async () => (await readyOf(proxy)).heldBack === null);
      },
      async stop() {
        await proxy.stop();
        await first.stop();
      },
    };
  }

  test("serves the snapshot before, says why, and takes up the newest once it is whole", async () => {
    const { proxy, headers, reason, putBack, stop } = await robbed(true);
    const commits = async () => [(await readyOf(proxy)).commit, await sampleOf(proxy, "prs_snapshot_commit")];
    expect(await readyOf(proxy)).toMatchObject({ status: "ready", heldBack: reason });
    expect(proxy.logged).toContainEqual(reason);
    expect(await commits()).toEqual([1, 1]);
    expect((await proxy.get(scores)).json()).toMatchObject({ count: 4 });
    expect((await proxy.get(archive, { headers })).json()).toMatchObject({ total: 40 });
    await putBack();
    expect(await commits()).toEqual([2, 2]);
    expect((await proxy.get(archive, { headers })).json()).toMatchObject({ total: 45 });
    await stop();
  });

  test("serves the scores of the newest where no other is whole, and the archive once it is", async () => {
    const { proxy, headers, reason, putBack, stop } = await robbed(false);
    const snapshotOf = async (path: string) => (await proxy.get(path, { headers })).headers["x-snapshot-id"];
    expect(await readyOf(proxy)).toMatchObject({ status: "ready", heldBack: reason, commit: 1 });
    expect(await sampleOf(proxy, "prs_snapshot_age_seconds")).toBe(12 * 3600);
    for (const path of [scores, `${scores}/aave`, `${scores}/aave/history`, `${scores}/aave/dimensions`])
      expect([path, outcome(await proxy.get(path, { headers }))]).toEqual([path, "200"]);
    const { snapshotId } = await readyOf(proxy);
    expect([await snapshotOf(scores), await snapshotOf(archive)]).toEqual([snapshotId, snapshotId]);
    for (const path of [archive, "/api/v1/markets/facets?by=tier", `${archive}?asOf=${snapshotId}`])
      expect([path, outcome(await proxy.get(path, { headers }))]).toEqual([path, "503 SNAPSHOT_UNAVAILABLE"]);
    await putBack();
    expect((await proxy.get(archive, { headers })).json()).toMatchObject({ total: 45 });
    await stop();
  });
});

/** The record of a run that names another commit. */
function named(bytes: Buffer, commit: number): Buffer {
  const { digest: _, ...run } = JSON.parse(String(bytes));
  return seal({ ...run, commit });
}

describe("the record of the last run, from which readers start,", () => {
  const hints: [string, (bytes: Buffer) => Buffer][] = [
    ...damages,
    ["far beyond every commit", (bytes) => named(bytes, Number.MAX_SAFE_INTEGER)],
    ["beyond what a number holds", (bytes) => named(bytes, 2 ** 53)],
    ["of the commit before", () => snapshots.store.get(layout.checked)!],
  ];

  test.for(hints)("that is %s stops neither readers nor the next publish", async ([, harm]) => {
    const storage = memoryStorage(new Map(both));
    const running = new Catalog(storage, { cacheBytes: 1024 });
    await running.refresh();
    const damaged = harm(both.get(layout.checked)!);
    await storage.put(layout.checked, damaged);
    for (const catalog of [running, new Catalog(storage, { cacheBytes: 1024 })]) {
      // Who cannot read when the last run was is told so, and shown the snapshot all the same.
      await catalog.refresh().catch((error) => expect(error.key).toBe(layout.checked));
      expect(catalog.current()?.commit).toMatchObject({ commit: 2, snapshotId: snapshots.new });
    }
    for (const [work, told, shown] of [
      [publishNew, { outcome: "unchanged", commit: 2 }, snapshots.new],
      [publishOld, { outcome: "published", commit: 3 }, snapshots.old],
    ] as const) {
      await storage.put(layout.checked, damaged);
      expect(await work(storage)).toMatchObject(told);
      await expectAllGood(storage, shown);
    }
  });
});

test("a reader does not go back when a store is put back to an older state", async () => {
  const objects = new Map(both);
  const catalog = new Catalog(memoryStorage(objects), { cacheBytes: 1024 });
  await catalog.refresh();
  objects.clear();
  for (const [key, bytes] of snapshots.store) objects.set(key, bytes);
  await expect(catalog.refresh()).rejects.toThrow(layout.commit(2));
  expect(catalog.current()?.commit.snapshotId).toBe(snapshots.new);
});

test("commits count by number, and their times never go back, whatever the publishers' clocks say", async () => {
  const storage = memoryStorage(new Map());
  const today = Date.parse("2030-01-01T00:00:00.000Z");
  const clocks = [today, today - 86_400_000, today + 86_400_000, 0, today - 3_600_000];
  let latest = 0;
  for (const [n, clock] of clocks.entries()) {
    latest = Math.max(latest, clock);
    const done = await publishRecords(storage, recordsOf(0, 20 + n), 700, { now: () => new Date(clock) });
    expect(done).toMatchObject({ outcome: "published", commit: n + 1 });
    expect(await newestCommit(storage)).toMatchObject({
      entry: { commit: n + 1, publishedAt: new Date(latest).toISOString() },
    });
    await expectAllGood(storage, done.snapshotId);
  }
  expect(await listCommits(storage)).toEqual([1, 2, 3, 4, 5]);
});

describe.skipIf(!smallDisk)("a disk that is full", () => {
  test("at any point of a publish leaves one whole snapshot, and with room again all gets good", async () => {
    const target = join(smallDisk!, "store");
    const ballast = join(smallDisk!, "ballast");
    const seen = new Set<string | undefined>();
    let [failures, ended] = [0, false];
    // The disk gives room by pages of 4 KiB.
    for (let left = 0; !ended; left += 8192) {
      const storage = directoryStorage(target);
      await fill(storage, snapshots.store);
      await fillUp(ballast, left);
      const outcome: unknown = await publishNew(storage).catch((error) => error);
      ended = !(outcome instanceof Error);
      seen.add(await expectWhole(storage, snapshots.old, snapshots.new));
      if (!ended) {
        failures += 1;
        expect(exitCodeOf(outcome)).toBe(exitCodes.unreachable);
        expect(await seenBy(storage)).toBe(
          (await listCommits(storage)).length === 1 ? snapshots.old : snapshots.new,
        );
      }
      await rm(ballast);
      expect(await publishNew(storage)).toMatchObject({ commit: 2, snapshotId: snapshots.new });
      await expectAllGood(storage, snapshots.new);
      await rm(target, { recursive: true });
    }
    expect(failures).toBeGreaterThan(5);
    expect(seen).toContain(snapshots.old);
  });
});

/** Fills the disk up except for `left` bytes. */
async function fillUp(path: string, left: number): Promise<void> {
  await writeFile(path, Buffer.alloc(2 * 1024 * 1024)).catch(() => {});
  const { size } = await stat(path);
  await truncate(path, Math.max(0, size - left));
}
