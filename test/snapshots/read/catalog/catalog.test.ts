import { beforeAll, describe, expect, test } from "vitest";
import { forgeTiers } from "../../../../schemas/versions.ts";
import { rollback } from "../../../../snapshots/maintain/rollback.ts";
import { commitAsOf, publishedAt, whileKept } from "../../../../snapshots/read/answer.ts";
import { publicStatus, statusOf } from "../../../../snapshots/read/archive/counts.ts";
import { Catalog, type CatalogOptions } from "../../../../snapshots/read/catalog/catalog.ts";
import { CorruptObjectError, MissingObjectError } from "../../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { seal } from "../../../../snapshots/store/objects.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../../snapshots/trust/log/log-reader.ts";
import { publishArchive } from "../../../helpers/publish/records.ts";
import { faultyStorage, memoryStorage, type StorageCall } from "../../../helpers/store/storages.ts";

const day = (n: number) => new Date(Date.UTC(2026, 2, n));
const iso = (n: number) => day(n).toISOString();
/**
 * Four snapshots, each published a day after the one before, and the first of them again. The sixth commit goes back to
 * the third, so that the fourth and the fifth are withdrawn.
 */
const published = new Map<string, Buffer>();
beforeAll(async () => {
  const storage = memoryStorage(published);
  for (const [n, bri] of [601, 602, 603, 604, 601].entries())
    await publishArchive(storage, { markets: 10, bri, now: () => day(n + 1) });
  await rollback(storage, "3", () => day(6));
  await storage.delete(layout.checked);
});

/** A catalog over a store of its own. */
function catalogOver(options: Partial<CatalogOptions> = {}) {
  const objects = new Map(published);
  const storage = faultyStorage(memoryStorage(objects));
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20, now: () => day(7).getTime(), ...options });
  const commit = async (number: number) => (await catalog.log.commit(number))!;
  const collect = async (number: number) => {
    objects.delete(layout.manifest((await commit(number)).manifest.hash));
  };
  return { objects, storage, catalog, commit, collect };
}

describe("a commit's snapshot", () => {
  test("can be read where the store lists nothing, when it is the current one", async () => {
    const { objects, storage, catalog, commit } = catalogOver();
    storage.fails = isList;
    objects.set(layout.checked, record(6, iso(6)));
    await catalog.refresh();
    const readable = [1, 2, 3, 4, 5, 6].map(async (n) => catalog.isReadable(await commit(n)));
    expect(await Promise.all(readable)).toEqual([false, false, false, false, false, true]);
  });

  test("is held once it was superseded, the newest first, unless it was withdrawn", async () => {
    const { catalog, commit } = catalogOver();
    for (const number of [2, 3, 4]) await catalog.listed(await commit(number));
    expect(catalog.superseded()).toEqual([]);
    await catalog.refresh();
    expect(catalog.superseded().map(({ commit }) => commit.commit)).toEqual([3, 2]);
  });

  test("is forgotten once it was collected, also while the newest cannot be taken up", async () => {
    const { storage, catalog, commit, collect } = catalogOver();
    await catalog.refresh();
    for (const number of [2, 3]) await catalog.listed(await commit(number));
    await collect(2);
    storage.fails = ({ key }) => key === layout.commit(6);
    await expect(catalog.refresh()).rejects.toThrow(StorageError);
    expect(catalog.superseded().map(({ commit }) => commit.commit)).toEqual([3]);
  });
});

test("a commit is there though nothing was loaded, and none where the log ends", async () => {
  const { objects, catalog } = catalogOver();
  expect((await catalog.log.commit(1))?.commit).toBe(1);
  expect(await catalog.log.commit(7)).toBeUndefined();
  const broken = catalogOver();
  broken.objects.delete(layout.commit(2));
  expect(await broken.catalog.log.commit(1)).toBeUndefined();
  broken.objects.set(layout.commit(2), objects.get(layout.commit(1))!);
  await broken.catalog.refresh();
  await expect(broken.catalog.log.commit(1)).rejects.toMatchObject({ code: "DAMAGED_LOG" });
});

const isList = ({ operation }: StorageCall) => operation === "list";

/** Whether a call reads the time of the run: a start asks once for the newest commit, and once for that. */
function runTimes() {
  let asked = 0;
  return ({ key }: StorageCall) => key === layout.checked && ++asked > 1;
}

/** The record of a run. */
const record = (commit: number, checkedAt: string) => seal({ checkedAt, commit, outcome: "unchanged" });

describe("what is newest in the store", () => {
  test("is held back for a reason that readers are told, and none of their business where the store fails", async () => {
    let error: Error | undefined;
    let refusal: string | undefined;
    const [asked, remembered]: [number[], boolean[]] = [[], []];
    const reader = {
      ...readAnyLog(memoryStorage(published)),
      async newest() {
        if (error) throw error;
        return undefined;
      },
      refusal: () => refusal,
      believesRun: (_: unknown, newest: number) => asked.push(newest) > 0,
      remember: async () => void remembered.push(true),
    };
    const { objects, catalog } = catalogOver({ reader });
    objects.set(layout.checked, record(6, iso(6)));
    const heldBack = async (thrown?: Error) => {
      error = thrown;
      await catalog.refresh().catch(() => {});
      return catalog.heldBack();
    };
    expect(await heldBack()).toBeUndefined();
    expect(await heldBack(new CorruptObjectError("checked.json", "it is broken"))).toContain("it is broken");
    expect(await heldBack(new StorageError("s3.internal refuses"))).toBeUndefined();
    refusal = "nobody signed it";
    expect(await heldBack()).toBe(refusal);
    expect([asked, remembered]).toEqual([
      [0, 0],
      [true, true],
    ]);
  });

  test("gives way to the newest whole one before it that stands, while nothing is shown", async () => {
    const { objects, catalog, commit, collect } = catalogOver();
    const manifest = layout.manifest((await commit(6)).manifest.hash);
    const taken = objects.get(manifest)!;
    // The third commit has the same snapshot, and the fourth and the fifth were withdrawn.
    await collect(6);
    await expect(catalog.refresh()).rejects.toThrow(manifest);
    expect(catalog.current()?.commit.commit).toBe(2);
    expect(catalog.heldBack()).toContain(manifest);
    objects.set(manifest, taken);
    await catalog.refresh();
    expect([catalog.current()?.commit.commit, catalog.heldBack()]).toEqual([6, undefined]);
  });

  test("gives way to none that it does not lead back to", async () => {
    const { objects, catalog, collect } = catalogOver();
    await collect(6);
    objects.set(layout.commit(5), objects.get(layout.commit(2))!);
    await expect(catalog.refresh()).rejects.toThrow(layout.manifest.prefix);
    expect(catalog.current()).toBeUndefined();
  });

  test("fails for its own reason where the store does not list what was collected either", async () => {
    const { objects, storage, catalog, commit } = catalogOver();
    await catalog.refresh();
    await catalog.listed(await commit(3));
    objects.set(layout.checked, Buffer.from("torn"));
    storage.fails = isList;
    await expect(catalog.refresh()).rejects.toThrow(CorruptObjectError);
    expect(catalog.heldBack()).toContain(layout.checked);
    objects.delete(layout.checked);
    await expect(catalog.refresh()).rejects.toThrow("cannot list");
  });

  // A rejection that nobody handles would end the process.
  test("fails for its own reason where the record of the run cannot be read either", async () => {
    const { storage, catalog } = catalogOver();
    const ofRun = runTimes();
    storage.fails = async (call) => {
      if (!call.key.startsWith(layout.manifest.prefix)) return ofRun(call);
      await new Promise(setImmediate);
      return true;
    };
    await expect(catalog.refresh()).rejects.toThrow(`cannot get ${layout.manifest.prefix}`);
  });
});

describe("when a run succeeded last", () => {
  test("is told by the record that names the current commit, and never goes back", async () => {
    let believed = true;
    const reader = { ...readAnyLog(memoryStorage(published)), believesRun: () => believed };
    const { objects, catalog } = catalogOver({ reader });
    const told = async (bytes?: Buffer) => {
      if (bytes) objects.set(layout.checked, bytes);
      else objects.delete(layout.checked);
      await catalog.refresh();
      return catalog.checkedAt();
    };
    expect(await told()).toBe(iso(6));
    expect(await told(record(6, iso(7)))).toBe(iso(7));
    expect(await told(record(5, iso(8)))).toBe(iso(7));
    expect(await told()).toBe(iso(7));
    believed = false;
    expect(await told(record(6, iso(9)))).toBe(iso(7));
  });

  test("is when the snapshot was published where nothing else is known", async () => {
    const { storage, catalog } = catalogOver();
    storage.fails = runTimes();
    await expect(catalog.refresh()).rejects.toThrow(StorageError);
    expect(statusOf(catalog, { staleAfterSeconds: 1 }).checkedAt).toBe(iso(6));
  });

  test("is so many seconds ago, and stale when they are more than allowed", async () => {
    let seconds = 0;
    const { catalog } = catalogOver({ now: () => day(6).getTime() + 1000 * seconds });
    await catalog.refresh();
    for (const [ago, ageSeconds, stale] of [
      [-1, 0, false],
      [60, 60, false],
      [61, 61, true],
    ] as const) {
      seconds = ago;
      expect(statusOf(catalog, { staleAfterSeconds: 60 })).toMatchObject({ ageSeconds, stale });
    }
  });
});

test("the status tells the tiers of an archive that is whole, and the rest of one that is not", async () => {
  const { objects, catalog } = catalogOver();
  const told = () => publicStatus(catalog, { staleAfterSeconds: 60 });
  await expect(told()).rejects.toMatchObject({ code: "SNAPSHOT_UNAVAILABLE" });
  const segments = [...objects.keys()].filter((key) => key.startsWith(layout.segment.prefix));
  for (const key of segments) objects.delete(key);
  await expect(catalog.refresh()).rejects.toThrow(layout.segment.prefix);
  expect(await told()).toEqual(statusOf(catalog, { staleAfterSeconds: 60 }));
  for (const key of segments) objects.set(key, published.get(key)!);
  await catalog.refresh();
  const { marketsByTier, counts } = await told();
  expect(Object.keys(marketsByTier!)).toEqual(forgeTiers);
  expect(Object.values(marketsByTier!).reduce((sum, count) => sum + count)).toBe(counts.markets);
});

describe("looking back", () => {
  test("an id names a commit that stands if there is one, else one that was withdrawn, also one not seen yet", async () => {
    const { catalog, commit } = catalogOver();
    const idOf = async (number: number) => (await commit(number)).snapshotId;
    const unseen = catalogOver().catalog;
    const id = await idOf(2);
    for (let n = 0; n < 2; n += 1)
      expect((await unseen.log.newestWith(({ snapshotId }) => snapshotId === id))?.commit).toBe(2);
    await catalog.refresh();
    const meant = async (number: number) =>
      (await commitAsOf(catalog, { snapshotId: await idOf(number) })).commit;
    expect([await meant(2), await meant(3), await meant(5)]).toEqual([2, 6, 1]);
    await expect(meant(4)).rejects.toThrow("withdrawn by a rollback");
    expect(await publishedAt(catalog, id)).toBe(day(2).getTime());
    expect(await publishedAt(catalog, sha256("nobody"))).toBeUndefined();
  });

  test("shows now what is current, also by a clock that is behind", async () => {
    const now = day(5).getTime();
    const { catalog } = catalogOver({ now: () => now });
    await catalog.refresh();
    expect((await commitAsOf(catalog, { time: now })).commit).toBe(6);
    expect((await commitAsOf(catalog, { time: now - 1 })).commit).toBe(3);
  });

  test("tells of a snapshot that is kept what went wrong", async () => {
    const { catalog, commit } = catalogOver();
    await catalog.refresh();
    const failing = async (number: number, error: Error) =>
      whileKept(catalog, await commit(number), async () => {
        throw error;
      });
    await expect(failing(6, new MissingObjectError("x"))).rejects.toBeInstanceOf(MissingObjectError);
    await expect(failing(1, new StorageError("x"))).rejects.toBeInstanceOf(StorageError);
    await expect(failing(1, new MissingObjectError("x"))).rejects.toMatchObject({ code: "SNAPSHOT_EXPIRED" });
  });
});
