import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Checked } from "../../../schemas/store/stored-objects.ts";
import { exitCodeOf, exitCodes } from "../../../scripts/cli.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import type { PublishOptions } from "../../../snapshots/publish/publish.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { isWithdrawn, newestCommit, readCommit, withdraw } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { unseal } from "../../../snapshots/store/objects.ts";
import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { goodStore, replaceCommit } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
/** When these tests roll back: a day after all runs. */
const later = new Date("2026-03-02T00:00:00.000Z");

/** The content of a commit: its markets and the bri of its protocols. */
const contents = {
  A: [recordsOf(0, 120), 600],
  B: [recordsOf(0, 150), 650],
  C: [recordsOf(20, 180), 700],
  D: [recordsOf(10, 200), 600],
} as const;
type Content = keyof typeof contents;
function publishContent(storage: Storage, name: Content, choices: Partial<PublishOptions> = {}) {
  const [markets, bri] = contents[name];
  return publishRecords(storage, markets, bri, choices);
}

/** Two commits, with the contents A and B. */
const two = new Map<string, Buffer>();
const storeOfTwo = () => memoryStorage(new Map(two));
beforeAll(async () => {
  for (const name of ["A", "B"] as const) await publishContent(memoryStorage(two), name);
});

const rollBack = (storage: Storage, target: string | number) =>
  rollback(storage, String(target), () => later);

/** The store is whole, and all names are those of its newest commit, which is this one. */
async function expectShown(storage: Storage, commit: number): Promise<void> {
  expect((await newestCommit(storage))?.entry.commit).toBe(commit);
  expect((await verify(storage, () => {})).faults).toEqual([]);
}

describe("a rollback", () => {
  test("makes a new commit with that snapshot, and all names follow", async () => {
    const storage = storeOfTwo();
    const first = (await readCommit(storage, 1))!;
    await publishContent(storage, "C");
    const last = (await newestCommit(storage))!;
    const commit = await rollBack(storage, first.entry.snapshotId.slice(0, 8));
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
    const storage = storeOfTwo();
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

test.for(["the same command", "a publish that is on hold"])(
  "a rollback that stops before it writes a public name is finished by %s",
  async (by) => {
    const storage = storeOfTwo();
    const stopping = changedStorage(storage, {
      replace: () => Promise.reject(new StorageError("cannot replace")),
    });
    await expect(rollBack(stopping, 1)).rejects.toThrow("cannot replace");
    const { faults } = await verify(storage, () => {});
    expect(faults.map(({ reason }) => reason)).toContain("projection behind commit 3: publish again");
    if (by === "the same command")
      expect(await rollBack(storage, 1)).toMatchObject({
        entry: { commit: 3, withdrawn: [[2, 2]] },
        hold: true,
      });
    else await expect(publishContent(storage, "B")).rejects.toMatchObject({ code: "PUBLISHING_ON_HOLD" });
    await expectShown(storage, 3);
  },
);

// The place to resume at is in test/snapshots/read/archive/cursors.test.ts.
test("walks over a rollback go on in the snapshot rolled back to, and are 410 in withdrawn ones", async () => {
  const storage = memoryStorage(new Map());
  await publishContent(storage, "A");
  const proxy = await startArchiveProxy(storage);
  onTestFinished(() => proxy.stop());
  const cursors: string[] = [];
  const begin = async () => {
    await proxy.refresh();
    cursors.push((await proxy.page({ pageSize: 25 })).nextCursor!);
  };
  await begin();
  for (const name of ["B", "C"] as const) {
    await publishContent(storage, name);
    await begin();
  }
  const statuses = () => Promise.all(cursors.map(async (cursor) => (await proxy.get({ cursor })).status));
  await rollBack(storage, 1);
  // Until the proxy looks, nothing has happened.
  expect(await statuses()).toEqual([200, 200, 200]);
  await proxy.refresh();
  expect(await statuses()).toEqual([200, 410, 410]);
  expect((await proxy.page({ cursor: cursors[0]! })).total).toBe(120);
  await begin();
  await publishContent(storage, "D", { resume: true });
  await proxy.refresh();
  // The rollback's own walk goes on; what it withdrew stays withdrawn.
  expect(await statuses()).toEqual([200, 410, 410, 200]);
});

// What a proxy tells of it is in test/snapshots/read/catalog/catalog.test.ts.
test("checked.json is renewed by every run that succeeds, and not by others nor by a rollback", async () => {
  const storage = memoryStorage(new Map());
  const at = (day: number) => new Date(Date.UTC(2026, 3, day));
  const run = (name: Content, day: number, resume = false) =>
    publishContent(storage, name, { resume, now: () => at(day) });
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

// What else the command says is in test/scripts/sessions/rollback.txt.
test("the command warns of a time that lies ahead of the store's clock", async () => {
  const store = directoryStorage(join(folder, "store"));
  for (const name of ["A", "B"] as const) await publishContent(store, name);
  await rollback(store, "1", () => new Date("2099-01-01T00:00:00.000Z"));
  const { stderr } = await snapshotCommand(["rollback", "2", "--store", store.location], { from: folder });
  expect(stderr).toContain("commit 4 gets the time 2099-01-01T00:00:00.000Z, and no");
});
