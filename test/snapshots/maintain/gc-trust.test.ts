import { expect, test } from "vitest";
import { formatVersion } from "../../../schemas/versions.ts";
import type { CollectOptions } from "../../../snapshots/maintain/gc.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { signRecord, subjectOf } from "../../../snapshots/trust/notes/signed-note.ts";
import { publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { listed } from "../../helpers/store/storages.ts";
import { content, timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

// A thief can create objects, and so commits above the newest. Collections that know whose commits count never delete
// for them.

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

/** Creates a commit above the newest one, as a thief would, with the snapshot of commit 1. */
async function forge(storage: Storage, number?: number): Promise<void> {
  const newest = (await newestCommit(storage))!;
  const { digest: _, note: __, ...first } = (await readCommit(storage, 1))!;
  const commit = number ?? newest.entry.commit + 1;
  const entry = { ...first.entry, commit, publishedAt: newest.entry.publishedAt };
  await storage.putIfAbsent(layout.commit(commit), seal({ ...first, entry, previous: newest.digest }));
}

const manifestOf = async (storage: Storage, number: number) =>
  layout.manifest((await readCommit(storage, number))!.manifest.hash);
const keep: Partial<CollectOptions> = { keepHours: 1, keepCommits: 1, signing };

test("a collection that knows keys refuses to count commits that none of them signed", async () => {
  const store = await storeOf();
  for (let count = 0; count < 3; count += 1) await forge(store.storage);
  store.pass(100);
  const before = await listed(store.storage);
  await expect(store.collect(keep)).rejects.toMatchObject({
    code: "UNTRUSTED_PREDECESSOR",
    message: expect.stringMatching(
      /commits\/0000000006\.json: nobody signed it\. .* delete commits\/0000000006/,
    ),
  });
  expect(await listed(store.storage)).toEqual(before);
  // Without them it keeps what the owner made.
  for (const number of [4, 5, 6]) await store.storage.delete(layout.commit(number));
  const newest = await manifestOf(store.storage, 3);
  const { deleted } = await store.collect(keep);
  expect(deleted.keys).toContain(await manifestOf(store.storage, 2));
  expect(deleted.keys).not.toContain(newest);
});

test("what lies above the newest commit is refused even if it is no commit, and below a gap", async () => {
  const store = await storeOf();
  await store.storage.putIfAbsent(layout.commit(9), Buffer.from("rubbish"));
  await expect(store.collect(keep)).rejects.toThrow(/commits\/0000000009\.json: /);
  await store.storage.delete(layout.commit(9));
  await forge(store.storage, 9);
  await expect(store.collect(keep)).rejects.toThrow(/commits\/0000000009\.json: nobody signed it/);
});

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

test("a commit of the past that was replaced stops a collection", async () => {
  const { storage, collect } = await storeOf();
  const { digest: _, note: __, ...second } = (await readCommit(storage, 2))!;
  await storage.put(layout.commit(2), seal({ ...second, entry: { ...second.entry, withdrawn: [[1, 1]] } }));
  await expect(collect(keep)).rejects.toThrow(
    "commits/0000000002.json: it is not the one that the next commit follows",
  );
  await storage.delete(layout.commit(2));
  await expect(collect(keep)).rejects.toThrow(/commits\/0000000002\.json: it is missing/);
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
    const sign = signRecord(key, subjectOf.export({ snapshotId }));
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
