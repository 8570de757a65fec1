import { expect, test } from "vitest";
import { formatVersion } from "../../../schemas/versions.ts";
import type { CollectOptions } from "../../../snapshots/maintain/gc.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { signRecord } from "../../../snapshots/trust/notes/signed-note.ts";
import { publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { listed } from "../../helpers/store/storages.ts";
import { content, timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

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

test("a store of signed commits is not collected for nobody in particular, unless that is asked for", async () => {
  for (const unsigned of [[], [1, 2], [3]]) {
    const { storage, collect } = await storeOf({ unsigned });
    const before = await listed(storage);
    await expect(collect({ ...keep, signing: {} })).rejects.toMatchObject({
      code: "UNTRUSTED_PREDECESSOR",
      message: expect.stringMatching(/--trusted-key FILE .*--trust-all/),
    });
    expect(await listed(storage)).toEqual(before);
    expect((await collect({ ...keep, signing: {}, anybody: true })).keptCommits).toBe(1);
  }
  const { collect } = await storeOf({ unsigned: [1, 2, 3] });
  expect((await collect({ ...keep, signing: {} })).keptCommits).toBe(1);
});

test("commits that were made before the first key count, as a signed one leads to them", async () => {
  const { collect } = await storeOf({ unsigned: [1, 2] });
  expect((await collect({ ...keep, keepCommits: 2 })).keptCommits).toBe(2);
});

test.each([
  ["signed", { signing }],
  ["signed, where everybody's commits count", { anybody: true }],
  ["unsigned", {}],
])("a log that lost its beginning is not collected unless told where it begins: %s", async (kind, whose) => {
  const store = await storeOf({ unsigned: kind === "unsigned" ? [1, 2, 3] : [] });
  // All that commit 1 reaches is due for deletion only where commit 1 itself does not keep it.
  const keepAll = { ...keep, signing: {}, keepCommits: 3, ...whose };
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
