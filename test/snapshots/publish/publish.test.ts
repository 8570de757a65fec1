import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { hashIn, layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { addMarkets } from "../../helpers/archive/odd-markets.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { publishSources, writeSources } from "../../helpers/publish/sample-sources.ts";
import { Crash } from "../../helpers/store/faulty-store.ts";
import { changedStorage, countingStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

test("a dry run tells what would be done, and changes nothing", async () => {
  const storage = countingStorage(memoryStorage(new Map()));
  const dry = await publishRecords(storage, recordsOf(0, 60), 700, { dryRun: true });
  expect(storage.written()).toEqual([]);
  const { snapshotId, counts, total } = await publishRecords(storage, recordsOf(0, 60));
  expect(dry).toMatchObject({ outcome: "dry-run", wouldCommit: true, commit: 0, snapshotId, counts, total });
});

test("writes leaves, manifest, commit, log, public names, site, and the time of the run at last", async () => {
  const counting = countingStorage(memoryStorage(new Map()));
  await publishRecords(counting, recordsOf(0, 300));
  const steps = [
    /^probe\.json$/,
    /^(private|public\/objects)\//,
    /^manifests\//,
    /^commits\//,
    /^public\/log\//,
    /^public\/api\//,
    /^public\/(index\.html$|site\/)/,
    /^checked\.json$/,
  ];
  const order = counting.written().map((key) => steps.findIndex((step) => step.test(key)));
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(new Set(order).size).toBe(steps.length);
});

// That directories and S3 are stores as this one is seen in test/snapshots/store/storage.test.ts.
describe("two publishers", () => {
  test("the one that comes second has lost", async () => {
    const storage = memoryStorage(new Map());
    await publishRecords(storage, recordsOf(0, 100));
    const rival = changedStorage(storage, {
      async putIfAbsent(key, body) {
        if (key === layout.commit(2)) await publishRecords(storage, recordsOf(0, 120));
        return storage.putIfAbsent(key, body);
      },
    });
    const message = expect.stringContaining("another publisher made commit 2 first");
    const lost = expect.objectContaining({ code: "COMMIT_LOST", message });
    await expect(publishRecords(rival, recordsOf(0, 110))).rejects.toEqual(lost);
    expect((await newestCommit(storage))!.entry.counts.markets).toBe(120);
    expect(await faultsOf(storage)).toEqual([]);
    const again = await publishRecords(storage, recordsOf(0, 110));
    expect(again).toMatchObject({ outcome: "published", commit: 3 });
  });

  test("one of them has lost where the store checks first and writes later", async () => {
    const storage = memoryStorage(new Map());
    await publishRecords(storage, recordsOf(0, 100));
    /** Resolves when it was called twice. */
    const both = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const calls = [() => {}, resolve];
      return () => {
        calls.shift()?.();
        return promise;
      };
    };
    const [checked, written] = [both(), both()];
    const racy = changedStorage(storage, {
      async putIfAbsent(key, body) {
        if (key !== layout.commit(2)) return storage.putIfAbsent(key, body);
        await checked();
        await storage.put(key, body);
        await written();
        return true;
      },
    });
    const ends = await Promise.allSettled([110, 120].map((last) => publishRecords(racy, recordsOf(0, last))));
    const [lost, won] = ends.toSorted((a, b) => (a.status > b.status ? -1 : 1));
    const message = expect.stringContaining("made commit 2 at the same time");
    const reason = expect.objectContaining({ code: "COMMIT_LOST", message });
    expect(lost).toEqual({ status: "rejected", reason });
    const { snapshotId } = (await newestCommit(storage))!.entry;
    expect(won).toMatchObject({ status: "fulfilled", value: { commit: 2, snapshotId } });
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("such a store is refused before anything is written to it", async () => {
    const objects = new Map<string, Buffer>();
    const racy = changedStorage(memoryStorage(objects), {
      async putIfAbsent(key, body) {
        if (objects.has(key)) return false;
        await new Promise(setImmediate);
        objects.set(key, Buffer.from(body));
        return true;
      },
    });
    await expect(publishRecords(racy, recordsOf(0, 20))).rejects.toThrow(
      "memory: this store checks If-None-Match before it writes, and not while it does",
    );
    expect([...objects.keys()]).toEqual([]);
  });
});

describe("public names", () => {
  const [old, early, later] = [700, 710, 720];
  const markets = recordsOf(0, 60);
  const name = layout.stableScore("aave");

  test("are not taken back by a publisher whose write was under way while a later one ended", async () => {
    const storage = memoryStorage(new Map());
    await publishRecords(storage, markets, old);
    let rival: Promise<unknown> | undefined;
    const late = changedStorage(storage, {
      async replace(key, body, tag) {
        rival ??= publishRecords(storage, markets, later);
        await rival;
        const done = await storage.replace(key, body, tag);
        expect(await faultsOf(storage), key).toEqual([]);
        return done;
      },
    });
    expect(await publishRecords(late, markets, early)).toMatchObject({ outcome: "published", commit: 2 });
    expect(await newestCommit(storage)).toMatchObject({ entry: { commit: 3 } });
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("that a store never lets be replaced end the run after its commit, and not never", async () => {
    const storage = memoryStorage(new Map());
    await publishRecords(storage, markets, old);
    const refusing = changedStorage(storage, { replace: async () => false });
    await expect(publishRecords(refusing, markets, later)).rejects.toThrow(
      "keep changing the public names; run again",
    );
    const again = await publishRecords(storage, markets, later);
    expect(again).toMatchObject({ outcome: "unchanged", commit: 2 });
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("of a publisher that was killed after its commit are said to be behind it", async () => {
    const storage = memoryStorage(new Map());
    const killed = changedStorage(storage, {
      async put(key, body) {
        if (key.startsWith(layout.log)) throw new Crash();
        return storage.put(key, body);
      },
    });
    await expect(publishRecords(killed, markets, old)).rejects.toThrow(Crash);
    const reasons = async () => [...new Set((await faultsOf(storage)).map(({ reason }) => reason))].sort();
    const behind = (commit: number) => `projection behind commit ${commit}: publish again`;
    expect(await reasons()).toEqual(["it is missing: publish again", behind(1)]);
    await publishRecords(storage, markets, old);
    await expect(publishRecords(killed, markets, later)).rejects.toThrow(Crash);
    expect((await faultsOf(storage)).map(({ key }) => key)).toContain(name);
    expect(await reasons()).toEqual([behind(2)]);
    await publishRecords(storage, markets, later);
    expect(await faultsOf(storage)).toEqual([]);
    // What the store lists with its MD5 is not fetched.
    const counting = countingStorage(storage);
    await publishRecords(counting, markets, later);
    const fetched = counting.calls.filter(({ operation }) => operation === "get").map(({ key }) => key);
    expect(fetched.filter((key) => key.startsWith(layout.stableScore.prefix))).toEqual([]);
  });
});

const folder = testFolder();

test("a small change uploads the pages around it, and what names them, and nothing else", async () => {
  const sources = await writeSources(join(folder, "growing"), { markets: 600 });
  const storage = memoryStorage(new Map());
  const temporary = join(folder, "temporary");
  await mkdir(temporary);
  const first = await publishSources(sources, storage, temporary);
  expect(await readdir(temporary)).toEqual([]);
  const stored = (await listed(storage)).filter(({ key }) => hashIn(key) !== "");
  const size = { objects: stored.length, bytes: stored.reduce((sum, { bytes }) => sum + bytes, 0) };
  expect(first.uploaded).toEqual(size);
  await addMarkets(sources, 5);
  const counting = countingStorage(storage);
  const { uploaded, unchanged, total, changeRecord } = await publishSources(sources, counting, folder);
  const written = counting.written();
  const under = (prefix: string) => written.filter((key) => key.startsWith(prefix)).length;
  // One at the new end and four at moments in between: each may touch its page, and the next where a cut moves.
  expect(under(layout.page.prefix)).toBeLessThanOrEqual(10);
  expect(under(layout.segment.prefix)).toBeLessThanOrEqual(5);
  for (const { prefix } of [layout.publicObject, layout.privateObject]) expect(under(prefix)).toBe(0);
  const beside = [layout.rows.prefix, layout.ids.prefix, layout.words.prefix, layout.origins.prefix];
  expect(beside.map(under)).toEqual(beside.map(() => under(layout.segment.prefix)));
  const archive = [layout.page.prefix, layout.segment.prefix, ...beside, layout.sourceFiles.prefix];
  const parts = [...archive, layout.manifest.prefix, layout.segmentList.prefix, layout.scoreLines.prefix];
  expect(uploaded.objects).toBe(parts.reduce((sum, prefix) => sum + under(prefix), 0));
  expect(changeRecord.objects).toBe(under(layout.changeRecord.prefix));
  expect(uploaded.bytes).toBeLessThan(total.bytes / 2);
  expect(total.objects).toBe(uploaded.objects + unchanged.objects);
  expect(total.bytes).toBe(uploaded.bytes + unchanged.bytes);
  // What the commit says, and what a repetition and a dry run count.
  expect((await newestCommit(storage))!.size).toEqual(total);
  for (const dryRun of [true, false]) {
    const again = await publishSources(sources, storage, folder, { dryRun });
    expect(again).toMatchObject({ unchanged: total, total, changeRecord: { objects: 0, bytes: 0 } });
  }
  // A publisher reads the indexes it builds on, and of the pages those whose rows it puts into new ones.
  const read = counting.calls.filter(({ operation, key }) =>
    `${operation} ${key}`.startsWith(`get ${layout.page.prefix}`),
  );
  expect(read.length).toBeLessThanOrEqual(10);
  expect(await faultsOf(storage)).toEqual([]);
});
