import { rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Ready } from "../../schemas/envelopes.ts";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { hashIn, layout } from "../../snapshots/store/layout.ts";
import { listCommits } from "../../snapshots/store/log/commits.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { bearer, outcome, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import {
  expectAllGood,
  expectWhole,
  fill,
  type OldAndNew,
  oldAndNew,
  publishNew,
  seenBy,
} from "../helpers/store/faulty-store.ts";
import { mountSmallDisk } from "../helpers/store/small-disk.ts";
import { changedStorage, countingStorage, listed, memoryStorage } from "../helpers/store/storages.ts";

const smallDisk = mountSmallDisk();
let snapshots: OldAndNew;

beforeAll(async () => {
  snapshots = await oldAndNew();
});

test("a store that ignores conditions is refused before anything else is written", async () => {
  const objects = new Map(snapshots.store);
  const storage = countingStorage(memoryStorage(objects));
  const careless = changedStorage(storage, {
    putIfAbsent: async (key, body) => {
      await storage.put(key, body);
      return true;
    },
  });
  await expect(publishNew(careless)).rejects.toThrow("memory: this store ignores If-None-Match");
  expect(new Set(storage.written())).toEqual(new Set([layout.probe]));
  await expectAllGood(storage, snapshots.old);
});

test.each([
  ["that it was there before", false],
  ["that it failed", new StorageError("the answer was lost")],
])("a commit that was stored counts where the store says %s", async (_, said) => {
  const storage = memoryStorage(new Map(snapshots.store));
  const late = changedStorage(storage, {
    async putIfAbsent(key, body) {
      const created = await storage.putIfAbsent(key, body);
      if (key !== layout.commit(2)) return created;
      if (said) throw said;
      return said;
    },
  });
  expect(await publishNew(late)).toMatchObject({ outcome: "published", commit: 2 });
  await expectAllGood(storage, snapshots.new);
});

test("no snapshot is committed of which the store has another object than was put", async () => {
  const kindOf = (key: string) => key.slice(0, key.lastIndexOf("/") + 1);
  const put = countingStorage(memoryStorage(new Map(snapshots.store)));
  await publishNew(put);
  // One of each kind.
  const aims = new Map(put.written().map((key) => [kindOf(key), key]));
  const named = [...aims.values()].filter((key) => hashIn(key) !== "");
  expect(named.length).toBeGreaterThan(6);
  for (const aim of named) {
    const storage = memoryStorage(new Map(snapshots.store));
    const damaging = changedStorage(storage, {
      put: (key, body) => storage.put(key, key === aim ? Buffer.from(body).with(0, body[0]! ^ 1) : body),
    });
    await expect(publishNew(damaging), aim).rejects.toThrow(
      "the store returns other bytes than were written",
    );
    expect(await seenBy(storage)).toBe(snapshots.old);
    expect(await publishNew(storage)).toMatchObject({ commit: 2, snapshotId: snapshots.new });
    await expectAllGood(storage, snapshots.new);
  }
});

// Where one before it is whole, that is shown: test/snapshots/read/catalog/catalog.test.ts, and attacks.test.ts of trust.
test("a proxy that starts where a segment of the first snapshot is gone serves its scores, and the archive once it is back", async () => {
  const [scores, archive] = ["/api/v1/scores", "/api/v1/markets/historical"];
  const first = await startTestProxy({ empty: true });
  const { storage } = first;
  await publishArchive(storage, { markets: 45, bri: 710 });
  const [{ key: segment } = { key: "" }] = await listed(storage, layout.segment.prefix);
  const bytes = (await storage.get(segment))!;
  await storage.delete(segment);
  // What is damaged elsewhere is told as well, and nothing more.
  await storage.put(layout.key("0123456789abcdef"), Buffer.from("{}"));
  const proxy = await first.another();
  await proxy.logs(/0123456789abcdef.*a key record is damaged/);
  const headers = bearer(await proxy.issue());
  const readyOf = async () => (await proxy.get("/readyz")).json() as Ready;
  const snapshotOf = async (path: string) => (await proxy.get(path, { headers })).headers["x-snapshot-id"];
  const { snapshotId, ...ready } = await readyOf();
  const reason = expect.stringContaining(`${segment}: it is missing; put that object back, publish again`);
  expect(ready).toMatchObject({ status: "ready", heldBack: reason, commit: 1 });
  expect(proxy.logged).toContainEqual(reason);
  expect(await proxy.metrics.getSingleMetricAsString("prs_snapshot_age_seconds")).toMatch(/ 43200\n?$/);
  for (const path of [scores, `${scores}/aave`, `${scores}/aave/history`, `${scores}/aave/dimensions`])
    expect([path, outcome(await proxy.get(path, { headers }))]).toEqual([path, "200"]);
  expect([await snapshotOf(scores), await snapshotOf(archive)]).toEqual([snapshotId, snapshotId]);
  for (const path of [archive, "/api/v1/markets/facets?by=tier", `${archive}?asOf=${snapshotId}`])
    expect([path, outcome(await proxy.get(path, { headers }))]).toEqual([path, "503 SNAPSHOT_UNAVAILABLE"]);
  await storage.put(segment, bytes);
  await until("the newest to be shown whole", async () => (await readyOf()).heldBack === null);
  expect((await proxy.get(archive, { headers })).json()).toMatchObject({ total: 45 });
  await proxy.stop();
  await first.stop();
});

describe.skipIf(!smallDisk)("a disk that is full", () => {
  test("at any point of a publish leaves one whole snapshot, and with room again all gets good", async () => {
    const target = join(smallDisk!, "store");
    const ballast = join(smallDisk!, "ballast");
    const seen = new Set<string | undefined>();
    let [failures, ended] = [0, false];
    // The disk gives room by pages of 4 KiB. After every single write the world kills a run.
    for (let left = 0; !ended; left += 16_384) {
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
