import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { addMarkets } from "../../helpers/archive/odd-markets.ts";
import { publishRecords, recordsOf, slugs } from "../../helpers/publish/records.ts";
import { publishSources, writePlainSources, writeSources } from "../../helpers/publish/sample-sources.ts";
import { Crash } from "../../helpers/store/faulty-store.ts";
import { changedStorage, contentOf, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { describeStores } from "../../helpers/store/stores.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

describeStores("publishing to %s", ({ environment, newStore }) => {
  describe("a dry run", () => {
    test("tells what would be done, and changes nothing", async () => {
      const markets = recordsOf(0, 60);
      const storage = newStore();
      const counting = countingStorage(storage);
      const dry = await publishRecords(counting, markets, 700, { dryRun: true });
      expect(counting.written()).toEqual([]);
      const real = await publishRecords(storage, markets);
      expect(dry).toMatchObject({
        outcome: "dry-run",
        wouldCommit: true,
        commit: 0,
        snapshotId: real.snapshotId,
        counts: real.counts,
        total: real.total,
      });
      const before = await contentOf(storage);
      const again = await publishRecords(storage, markets, 700, { dryRun: true });
      expect(again).toMatchObject({
        outcome: "dry-run",
        wouldCommit: false,
        commit: 1,
        uploaded: { objects: 0, bytes: 0 },
      });
      expect(await contentOf(storage)).toEqual(before);
    });
  });

  describe("order of writing", () => {
    test("leaves, manifest, commit, log, public names, site, and the time of the run at last", async () => {
      const counting = countingStorage(newStore());
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
  });

  describe("two publishers", () => {
    test("the one that comes second has lost", async () => {
      const storage = newStore();
      await publishRecords(storage, recordsOf(0, 100));
      const rival = changedStorage(storage, {
        async putIfAbsent(key, body) {
          if (key === layout.commit(2)) await publishRecords(storage, recordsOf(0, 120));
          return storage.putIfAbsent(key, body);
        },
      });
      const error = await publishRecords(rival, recordsOf(0, 110)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "COMMIT_LOST" });
      expect(String(error)).toContain("another publisher made commit 2 first");
      expect((await newestCommit(storage))!.entry.counts.markets).toBe(120);
      expect((await verify(storage, () => {})).faults).toEqual([]);
      expect(await publishRecords(storage, recordsOf(0, 110))).toMatchObject({
        outcome: "published",
        commit: 3,
      });
    });

    test("one of them has lost where the store checks first and writes later", async () => {
      const storage = newStore();
      await publishRecords(storage, recordsOf(0, 100));
      /** Resolves when it was called twice. */
      const both = () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        let calls = 0;
        return () => {
          calls += 1;
          if (calls === 2) resolve();
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
      const ends = await Promise.allSettled(
        [110, 120].map((last) => publishRecords(racy, recordsOf(0, last))),
      );
      const [lost, won] = ends.toSorted((a, b) => (a.status > b.status ? -1 : 1));
      expect(lost).toMatchObject({
        status: "rejected",
        reason: expect.objectContaining({ code: "COMMIT_LOST" }),
      });
      expect(String((lost as PromiseRejectedResult).reason)).toContain("made commit 2 at the same time");
      const { snapshotId } = (await newestCommit(storage))!.entry;
      expect(won).toMatchObject({ status: "fulfilled", value: { commit: 2, snapshotId } });
      expect((await verify(storage, () => {})).faults).toEqual([]);
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
      const storage = newStore();
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
      const storage = newStore();
      await publishRecords(storage, markets, old);
      const refusing = changedStorage(storage, { replace: async () => false });
      await expect(publishRecords(refusing, markets, later)).rejects.toThrow(
        "keep changing the public names; run again",
      );
      expect(await publishRecords(storage, markets, later)).toMatchObject({
        outcome: "unchanged",
        commit: 2,
      });
      expect(await faultsOf(storage)).toEqual([]);
    });

    test("of a publisher that was killed after its commit are said to be behind it", async () => {
      const storage = newStore();
      const killed = changedStorage(storage, {
        async put(key, body) {
          if (key.startsWith(layout.log)) throw new Crash();
          return storage.put(key, body);
        },
      });
      await expect(publishRecords(killed, markets, old)).rejects.toThrow(Crash);
      const told = new Set((await faultsOf(storage)).map(({ reason }) => reason));
      expect(told).toEqual(
        new Set(["it is missing: publish again", "projection behind commit 1: publish again"]),
      );
      await publishRecords(storage, markets, old);
      await expect(publishRecords(killed, markets, later)).rejects.toThrow(Crash);
      const behind = await faultsOf(storage);
      expect(behind.map(({ key }) => key)).toContain(name);
      expect(new Set(behind.map(({ reason }) => reason))).toEqual(
        new Set(["projection behind commit 2: publish again"]),
      );
      await publishRecords(storage, markets, later);
      expect(await faultsOf(storage)).toEqual([]);
      // What S3 lists with its MD5 is not fetched.
      const counting = countingStorage(storage);
      await publishRecords(counting, markets, later);
      const fetched = counting.calls.filter(({ operation }) => operation === "get").map(({ key }) => key);
      const names = fetched.filter((key) => key.startsWith(layout.stableScore.prefix));
      expect(names).toHaveLength(environment.AWS_ENDPOINT_URL_S3 ? 0 : slugs.length + 1);
    });
  });
});

describe("publishing files", () => {
  const folder = testFolder();

  test("leaves no temporary files behind", async () => {
    const temporary = join(folder, "temporary");
    await writePlainSources(join(folder, "small"));
    await mkdir(temporary);
    await publishSources(join(folder, "small"), memoryStorage(new Map()), temporary);
    expect(await readdir(temporary)).toEqual([]);
  });

  test("with a small change uploads the pages around it, and what names them, and nothing else", async () => {
    const sources = await writeSources(join(folder, "growing"), { markets: 2_000 });
    const storage = memoryStorage(new Map());
    await publishSources(sources, storage, folder);
    await addMarkets(sources, 5);
    const counting = countingStorage(storage);
    const { uploaded, unchanged, total, changeRecord } = await publishSources(sources, counting, folder);
    const written = counting.written();
    const under = (prefix: string) => written.filter((key) => key.startsWith(prefix)).length;
    // One at the new end and four at moments in between: each may touch its page, and the next where a cut moves.
    expect(under(layout.page.prefix)).toBeLessThanOrEqual(10);
    expect(under(layout.segment.prefix)).toBeLessThanOrEqual(5);
    expect(under(layout.publicObject.prefix)).toBe(0);
    const beside = [layout.rows.prefix, layout.ids.prefix, layout.words.prefix, layout.origins.prefix];
    expect(beside.map(under)).toEqual(beside.map(() => under(layout.segment.prefix)));
    const archive = [layout.page.prefix, layout.segment.prefix, ...beside, layout.sourceFiles.prefix];
    const parts = [...archive, layout.manifest.prefix, layout.segmentList.prefix, layout.scoreLines.prefix];
    expect(uploaded.objects).toBe(parts.reduce((sum, prefix) => sum + under(prefix), 0));
    expect(changeRecord.objects).toBe(under(layout.changeRecord.prefix));
    expect(uploaded.bytes).toBeLessThan(total.bytes / 2);
    expect(total).toEqual({
      objects: uploaded.objects + unchanged.objects,
      bytes: uploaded.bytes + unchanged.bytes,
    });
    // What the commit says, and what a repetition and a dry run count.
    expect((await newestCommit(storage))!.size).toEqual(total);
    for (const dryRun of [true, false]) {
      const again = await publishSources(sources, storage, folder, { dryRun });
      expect(again).toMatchObject({ unchanged: total, total, changeRecord: { objects: 0, bytes: 0 } });
    }
    // A publisher reads the indexes it builds on, and of the pages those whose rows it puts into new ones.
    const read = counting.calls.filter(
      ({ operation, key }) => operation === "get" && key.startsWith(layout.page.prefix),
    );
    expect(read.length).toBeLessThanOrEqual(10);
    expect((await verify(storage, () => {})).faults).toEqual([]);
  });
});
