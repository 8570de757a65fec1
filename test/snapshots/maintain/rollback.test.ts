import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { Checked, type Commit } from "../../../schemas/store/stored-objects.ts";
import { exitCodeOf, exitCodes } from "../../../scripts/cli.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { isWithdrawn, newestCommit, readCommit, withdraw } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { partsOf, unseal } from "../../../snapshots/store/objects.ts";
import { StorageError } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { type ArchiveProxy, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import {
  type Content,
  contents,
  expectShown,
  later,
  publishContent,
  rollBack,
  snapshotOf,
  storeOf,
} from "../../helpers/store/rollback-store.ts";
import {
  aroundCalls,
  changedStorage,
  changes,
  contentOf,
  countingStorage,
  memoryStorage,
} from "../../helpers/store/storages.ts";
import { goodStore, replaceCommit } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

describe("a rollback", () => {
  test.for([
    ["a commit number", () => "1"],
    ["8 digits of a snapshot id", ({ entry: { snapshotId } }: Commit) => snapshotId.slice(0, 8)],
    ["a whole snapshot id", ({ entry: { snapshotId } }: Commit) => snapshotId],
  ] as const)("to %s makes a new commit with that snapshot, and all names follow", async ([, target]) => {
    const storage = await storeOf(folder, "A");
    const first = (await newestCommit(storage))!;
    await publishContent(storage, "B");
    await publishContent(storage, "C");
    const last = (await newestCommit(storage))!;
    const commit = await rollBack(storage, target(first));
    const { entry, manifest, size } = first;
    expect(commit).toMatchObject({ manifest, size, hold: true, previous: last.digest });
    const publishedAt = later.toISOString();
    expect(commit.entry).toEqual({ ...entry, commit: 4, withdrawn: [[2, 3]], publishedAt });
    await expectShown(storage, 4);
  });

  test("names the commits that were withdrawn in as few ranges as there can be", () => {
    const storage = memoryStorage(new Map());
    const number = fc.integer({ min: 2, max: 40 });
    const range = fc
      .tuple(number, number)
      .map(([a, b]): [number, number] => [Math.min(a, b), Math.max(a, b)]);
    fc.assert(
      fc.property(fc.array(range, { maxLength: 6 }), fc.integer({ min: 2, max: 42 }), (withdrawn, from) => {
        const commit = 41;
        const made = withdraw(storage, { commit, withdrawn }, from);
        const expected = (n: number) => isWithdrawn(n, { withdrawn }) || (from <= n && n <= commit);
        for (let n = 1; n <= commit + 1; n += 1)
          expect(isWithdrawn(n, { withdrawn: made })).toBe(expected(n));
        for (const [place, [first]] of made.entries())
          if (place > 0) expect(first).toBeGreaterThan(made[place - 1]![1] + 1);
      }),
    );
  });

  test("that would list more ranges than a commit has room for is refused, and so is every such commit", async () => {
    const ranges = (count: number) =>
      Array.from({ length: count }, (_, n): [number, number] => [1_000_000 + 2 * n, 1_000_000 + 2 * n]);
    const objects = await goodStore();
    replaceCommit(objects, { entry: { withdrawn: ranges(2_800) } });
    const storage = countingStorage(memoryStorage(objects));
    const refused = await rollBack(storage, 2).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "COMMIT_TOO_LARGE",
      message: expect.stringMatching(
        /commit 4 would list 2801 ranges.*; roll back to a commit before many of them/,
      ),
    });
    expect(exitCodeOf(refused)).toBe(exitCodes.refused);
    expect(storage.written()).toEqual([]);
    // Publishing goes on as long as readers take what it makes.
    const publish = () => publishRecords(memoryStorage(new Map(objects)), recordsOf(0, 119), 720);
    expect(await publish()).toMatchObject({ outcome: "published", commit: 4 });
    const key = replaceCommit(objects, { entry: { withdrawn: [] } });
    const room = layout.commit.maxBytes - objects.get(key)!.length;
    replaceCommit(objects, { entry: { withdrawn: ranges(Math.floor(room / "[1000000,1000000],".length)) } });
    await expect(publish()).rejects.toMatchObject({ code: "COMMIT_TOO_LARGE" });
  });

  test.for([
    ["9", "there is no commit 9"],
    ["0", "neither a commit number"],
    ["abcdef0", "neither a commit number nor 8 or more digits"],
    ["ABCDEF01", "neither a commit number"],
    ["-1", "neither a commit number"],
    ["1.0", "neither a commit number"],
    ["0000000000000000", "no commit has a snapshot"],
    ["current", "neither a commit number"],
  ])("to %s is refused", async ([target, reason]) => {
    const storage = countingStorage(await storeOf(folder, "A", "B"));
    const error = await rollBack(storage, target!).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "SNAPSHOT_NOT_FOUND" });
    expect(String(error)).toContain(reason);
    expect(storage.written()).toEqual([]);
  });

  test("to the current snapshot is refused, by number and by id", async () => {
    const storage = await storeOf(folder, "A", "B");
    const current = await snapshotOf(storage);
    for (const target of ["2", current, current.slice(0, 10)]) {
      await expect(rollBack(storage, target)).rejects.toThrow(/commit 2 already has snapshot/);
    }
    await expect(rollBack(await storeOf(folder), "1")).rejects.toThrow(/nothing has been published/);
  });

  test("to an id that several snapshots begin with is refused", async () => {
    const objects = await goodStore();
    const storage = memoryStorage(objects);
    const { snapshotId } = (await readCommit(storage, 1))!.entry;
    const shared = snapshotId.slice(0, 8);
    replaceCommit(objects, { entry: { snapshotId: shared.padEnd(64, "0") } });
    await expect(rollBack(storage, shared)).rejects.toThrow(/several snapshot ids begin with/);
    expect(await rollBack(storage, snapshotId)).toMatchObject({ entry: { commit: 4 } });
  });

  test("to a snapshot that was collected, or lost any one object, is refused", async () => {
    const storage = await storeOf(folder, "A", "B");
    const commit = (await newestCommit(storage))!;
    const { segments, scores } = await readManifest(storage, commit);
    await publishContent(storage, "C");
    for (const key of [
      layout.manifest(commit.manifest.hash),
      layout.segment(segments[0]!.hash),
      layout.publicObject(scores.list.hash),
      layout.privateObject(scores.histories.aave!.hash),
      layout.privateObject(scores.dimensions.aave!.hash),
    ]) {
      const bytes = await storage.get(key);
      await storage.delete(key);
      const counting = countingStorage(storage);
      await expect(rollBack(counting, 2)).rejects.toThrow(/commit 2 is incomplete/);
      expect(counting.written()).toEqual([]);
      await storage.put(key, bytes!);
    }
    expect(await rollBack(storage, 2)).toMatchObject({ entry: { commit: 4 } });
  });
});

test("publishing on hold is refused, and shows what a rollback that was stopped did not", async () => {
  const storage = await storeOf(folder, "A", "B");
  const stopping = changedStorage(storage, {
    replace: async (key) => {
      throw new StorageError(`cannot write ${key}`);
    },
  });
  await expect(rollBack(stopping, 1)).rejects.toThrow(StorageError);
  const before = await verify(storage, () => {});
  expect(before.faults.map(({ reason }) => reason)).toContain("projection behind commit 3: publish again");
  await expect(publishContent(storage, "B")).rejects.toMatchObject({ code: "PUBLISHING_ON_HOLD" });
  await expectShown(storage, 3);
});

test("publishing on hold is refused with the way on, also where a part of the manifest is lost", async () => {
  const store = await storeOf(folder, "A", "B");
  const commit = await rollBack(store, 1);
  const objects = await contentOf(store);
  for (const key of partsOf(await readManifest(store, commit)).keys()) {
    const bytes = (await store.get(key))!;
    await store.delete(key);
    const warnings: string[] = [];
    const warn = (line: string) => void warnings.push(line);
    const [markets, bri] = contents.B;
    await expect(publishRecords(store, markets, bri, { warn })).rejects.toThrow("publish with --resume");
    expect(warnings).toEqual([`${key}: it is missing`]);
    await store.put(key, bytes);
    expect(await contentOf(store)).toEqual(objects);
  }
});

test.for([
  ["before", layout.commit(3)],
  ["after", layout.commit(3)],
  ["before", layout.stableScoreList],
] as const)(
  "a rollback that stops right %s it writes %s is finished by the same command",
  async ([when, failing]) => {
    const storage = await storeOf(folder, "A", "B");
    const stopping = aroundCalls(storage, async (work, call) => {
      if (call.key !== failing || !changes(call)) return work();
      if (when === "after") await work();
      throw new StorageError(`cannot write ${failing}`);
    });
    const stopped = await rollBack(stopping, 1).catch((error: unknown) => error);
    // Whether a commit was stored can be asked afterwards.
    expect(stopped instanceof Error).toBe(when === "before");
    expect(await rollBack(storage, 1)).toMatchObject({
      entry: { commit: 3, withdrawn: [[2, 2]] },
      hold: true,
    });
    await expectShown(storage, 3);
  },
);

describe("publishing after a rollback", () => {
  test("is on hold until it is resumed", async () => {
    const storage = await storeOf(folder, "A", "B");
    await rollBack(storage, 1);
    for (const name of ["A", "B", "C"] as const) {
      const counting = countingStorage(storage);
      const error = await publishContent(counting, name).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "PUBLISHING_ON_HOLD" });
      expect(String(error)).toContain("publish with --resume");
      expect(counting.written()).toEqual([]);
    }
    expect(await publishContent(storage, "C", true)).toMatchObject({ outcome: "published", commit: 4 });
    expect((await newestCommit(storage))?.hold).toBe(false);
    expect(await publishContent(storage, "D")).toMatchObject({ outcome: "published", commit: 5 });
    await expectShown(storage, 5);
  });

  test.for(["A", "B"] as const)("is resumed with the content of %s, which was there before", async (name) => {
    const storage = await storeOf(folder, "A", "B");
    await rollBack(storage, 1);
    const report = await publishContent(storage, name, true);
    expect(report).toMatchObject({
      outcome: "published",
      commit: 4,
      uploaded: { objects: expect.any(Number) },
    });
    expect(await newestCommit(storage)).toMatchObject({ entry: { withdrawn: [[2, 2]] }, hold: false });
    expect(await publishContent(storage, name)).toMatchObject({ outcome: "unchanged", commit: 4 });
    await expectShown(storage, 4);
  });
});

let proxy: ArchiveProxy | undefined;
afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
});

// The place to resume at is in test/snapshots/read/archive/cursors.test.ts.
test("walks over a rollback go on in the snapshot rolled back to, and are 410 in withdrawn ones", async () => {
  const storage = await storeOf(folder, "A");
  proxy = await startArchiveProxy(storage);
  const cursors: string[] = [];
  const begin = async () => {
    await proxy!.refresh();
    cursors.push((await proxy!.page({ pageSize: 25 })).nextCursor!);
  };
  await begin();
  for (const name of ["B", "C"] as const) {
    await publishContent(storage, name);
    await begin();
  }
  const statuses = () => Promise.all(cursors.map(async (cursor) => (await proxy!.get({ cursor })).status));
  await rollBack(storage, 1);
  // Until the proxy looks, nothing has happened.
  expect(await statuses()).toEqual([200, 200, 200]);
  await proxy.refresh();
  expect(await statuses()).toEqual([200, 410, 410]);
  expect((await proxy.page({ cursor: cursors[0]! })).total).toBe(120);
  await begin();
  await publishContent(storage, "D", true);
  await proxy.refresh();
  // The rollback's own walk goes on; what it withdrew stays withdrawn.
  expect(await statuses()).toEqual([200, 410, 410, 200]);
});

// What a proxy tells of it is in test/snapshots/read/catalog/catalog.test.ts.
test("checked.json is renewed by every run that succeeds, and not by others nor by a rollback", async () => {
  const storage = await storeOf(folder);
  const at = (day: number) => new Date(Date.UTC(2026, 3, day));
  const run = (name: Content, day: number, resume = false) => {
    const [markets, bri] = contents[name];
    return publishRecords(storage, markets, bri, { resume, now: () => at(day) });
  };
  const expectChecked = async (day: number, commit: number, outcome: string) =>
    expect(unseal(layout.checked, (await storage.get(layout.checked))!, Checked)).toMatchObject({
      checkedAt: at(day).toISOString(),
      commit,
      outcome,
    });
  await run("A", 1);
  await expectChecked(1, 1, "published");
  await run("A", 2);
  await expectChecked(2, 1, "unchanged");
  await run("B", 3);
  await rollBack(storage, 1);
  await expectChecked(3, 2, "published");
  await expect(run("B", 4)).rejects.toMatchObject({ code: "PUBLISHING_ON_HOLD" });
  await expectChecked(3, 2, "published");
  await run("B", 5, true);
  await expectChecked(5, 4, "published");
});

test("npm run snapshot -- rollback rolls back, shows it in the list, holds publishing, and says how to go on", async () => {
  const store = await storeOf(folder, "A", "B", "C");
  const run = (args: string) =>
    snapshotCommand([...args.split(" "), "--store", store.location], { from: folder });
  const done = await run("rollback 1");
  expect(done.code).toBe(0);
  expect(done.stdout).toMatch(/^Commit 4 has snapshot [0-9a-f]{64} again\. Publishing is on hold until/);
  const list = (await run("list")).stdout.trimEnd().split("\n");
  const states = list.map((line) => line.split("  ").slice(6).join(""));
  expect(list.map((line) => line.split("  ")[0])).toEqual(["4", "3", "2", "1"]);
  expect(states).toEqual(["rollback", "withdrawn", "withdrawn", ""]);
  const again = await run("rollback 2 --json");
  expect(JSON.parse(again.stdout)).toMatchObject({ commit: 5, hold: true });
  expect((await run("list")).stdout).toMatch(/^4 {2}.* rollback, withdrawn$/m);
  expect(await run("rollback 77")).toMatchObject({ code: 2, stdout: "" });
  expect(await run("rollback")).toMatchObject({ code: 2, stdout: "" });
  expect((await run("verify")).code).toBe(0);
  await rollback(store, "1", () => new Date("2099-01-01T00:00:00.000Z"));
  expect((await run("rollback 2")).stderr).toContain(
    "commit 7 gets the time 2099-01-01T00:00:00.000Z, and no",
  );
});
