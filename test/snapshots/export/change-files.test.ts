import { describe, expect, test } from "vitest";
import { readExported, readSound } from "../../../snapshots/export/export-records.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { signRecord } from "../../../snapshots/trust/notes/signed-note.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { Crash } from "../../helpers/store/faulty-store.ts";
import { testKey } from "../../helpers/store/signing.ts";
import {
  aroundCalls,
  changes,
  countingStorage,
  listed,
  memoryStorage,
} from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { start, timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
const exported = (storage: Storage) => exportNewest(storage, folder, { changes: true });
const dayMs = 86_400_000;

/** Publishes the snapshot of a round, a day after that of the round before. */
const publish = (storage: Storage, round: number) =>
  publishRecords(storage, recordsOf(round, 20 + 2 * round), 700 + round, {
    now: () => new Date(start + round * dayMs),
  });

const hashOf = async (storage: Storage, commit: number) => (await readCommit(storage, commit))!.changes!.hash;

/** The numbers of the commits whose changes are exported. */
async function exportedChanges(storage: Storage, commits: readonly number[]): Promise<number[]> {
  const keys = (await listed(storage, layout.exportedChanges.prefix)).map(({ key }) => key);
  const hashes = await Promise.all(commits.map((commit) => hashOf(storage, commit)));
  const found = commits.filter((_, n) => keys.includes(layout.exportedChanges(hashes[n]!)));
  expect(found).toHaveLength(keys.length);
  return found;
}

/** A store with an exported first commit, and two more that are not exported. */
async function unexported(objects = new Map<string, Buffer>()) {
  const storage = memoryStorage(objects);
  await publish(storage, 0);
  await exportNewest(storage, folder);
  await publish(storage, 1);
  const { snapshotId } = await publish(storage, 2);
  return { objects, storage, snapshotId };
}

/** A store whose publisher signs what it commits and exports. */
function signedStore() {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  const signing = { key: testKey(), trusted: [testKey()] };
  const commit = (round: number) =>
    publishRecords(storage, recordsOf(0, 20 + round), 700 + round, { signing });
  return { objects, storage, commit, run: () => exportNewest(storage, folder, { changes: true, signing }) };
}

describe("exported changes", () => {
  test("are kept with the change records, and collected with them", async () => {
    const { storage, collect, pass } = timedStore();
    for (const round of [0, 1, 2, 3]) {
      await publish(storage, round);
      await exported(storage);
      pass(24);
    }
    pass(100);
    const now = new Date(start + 8 * dayMs);
    const retention = { keepHours: 1, keepCommits: 1, now };
    expect((await collect({ ...retention, keepChangesDays: 30 })).tiers.changes).toBeGreaterThan(0);
    // The two newest exports stay, too. That no other goes early is judged in test/world.
    expect(await listed(storage, layout.exportRecord.prefix)).toHaveLength(2);
    expect(await exportedChanges(storage, [2, 3, 4])).toEqual([2, 3, 4]);
    const { files } = (await readExported(storage, layout.exportedChanges, await hashOf(storage, 2)))!;
    const { deleted } = await collect({ ...retention, keepChangesDays: 6 });
    // Commits 3 and 4 were published within the days that stay.
    expect(await exportedChanges(storage, [2, 3, 4])).toEqual([3, 4]);
    expect(deleted.keys).toContain(layout.changeRecord(await hashOf(storage, 2)));
    const gone = files.flatMap(({ hash, chunks }) => [
      layout.exportFile(hash),
      layout.exportChunks(chunks.hash),
    ]);
    expect(deleted.keys).toEqual(expect.arrayContaining(gone));
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("end where the log begins, after commits that are lost", async () => {
    const storage = memoryStorage(new Map());
    for (const round of [0, 1, 2, 3]) await publish(storage, round);
    for (const lost of [1, 2]) await storage.delete(layout.commit(lost));
    await exported(storage);
    expect(await exportedChanges(storage, [3, 4])).toEqual([3, 4]);
  });

  test("are checked by verify to the last byte, as is the export, and made whole by another run", async () => {
    const { objects, storage, snapshotId } = await unexported();
    await exported(storage);
    const [changes, other] = [await hashOf(storage, 3), await hashOf(storage, 2)];
    const whole = new Map(objects);
    const [own, ofChange] = [layout.exportRecord(snapshotId), layout.exportedChanges(changes)];
    const { digest: _, ...sound } = JSON.parse(String(whole.get(own)));
    const disagreeing = seal({ ...sound, archiveRoot: "0".repeat(64) });
    for (const [record, foreign, reason] of [
      [ofChange, whole.get(layout.exportedChanges(other))!, "of another change"],
      [own, disagreeing, "it disagrees with its commit"],
    ] as const) {
      const [{ hash, bytes, chunks }] = JSON.parse(String(whole.get(record))).files;
      const damages: [string, Buffer | undefined, string][] = [
        [layout.exportFile(hash), undefined, "missing"],
        [layout.exportFile(hash), Buffer.alloc(bytes), "chunk 0"],
        [layout.exportFile(hash), whole.get(layout.exportFile(hash))!.subarray(1), "it ends before byte"],
        [layout.exportChunks(chunks.hash), undefined, "missing"],
        [record, Buffer.from("{}"), "format version"],
        [record, foreign, reason],
      ];
      for (const [key, damaged, told] of damages) {
        if (damaged) objects.set(key, damaged);
        else objects.delete(key);
        expect(await faultsOf(storage)).toMatchObject([{ key, reason: expect.stringContaining(told) }]);
        // An export reads no file that has the right length, nor what its own record says of the commit.
        if (damaged?.length === bytes || damaged === disagreeing) objects.set(key, whole.get(key)!);
        await exported(storage);
        expect(await faultsOf(storage)).toEqual([]);
      }
    }
    const counting = countingStorage(storage);
    await exported(counting);
    expect(counting.written()).toEqual([]);
  });

  test("need the signature of a key that is trusted, as the export does, and are made again without it", async () => {
    const { objects, storage, commit, run } = signedStore();
    for (const round of [0, 1]) await commit(round);
    const trust = new Trust([testKey()]);
    const faults = async () => (await verify(storage, () => {}, { trust })).faults.map((fault) => fault.key);
    const { snapshotId } = await run();
    expect(await faults()).toEqual([]);
    for (const [record, what, name] of [
      [layout.exportedChanges, "changes", await hashOf(storage, 2)],
      [layout.exportRecord, "export", snapshotId],
    ] as const) {
      const key = record(name);
      const { digest: _, note: __, ...sound } = JSON.parse(String(objects.get(key)));
      for (const sign of [
        undefined,
        signRecord(testKey("other.example"), `${what} ${name}`),
        signRecord(testKey(), `${what} ${"0".repeat(64)}`),
      ]) {
        objects.set(key, seal({ ...sound, files: [] }, sign));
        expect(await faults()).toEqual([key]);
        await run();
        expect(await faults()).toEqual([]);
      }
    }
  });

  test("go back past an export that nobody signed", async () => {
    const { storage, commit, run } = signedStore();
    const { snapshotId: first } = await commit(0);
    await run();
    const { snapshotId } = await commit(1);
    const { digest: _, note: __, ...record } = (await readSound(storage, layout.exportRecord, first))!;
    await storage.put(layout.exportRecord(snapshotId), seal({ ...record, commit: 2, snapshotId }));
    await commit(2);
    await run();
    expect(await exportedChanges(storage, [2, 3])).toEqual([2, 3]);
  });

  test("are whole or not there after a kill behind any record, as is the export, and the next run leaves no gap", async () => {
    const { objects, snapshotId } = await unexported();
    const files = (await exported(memoryStorage(new Map(objects)))).total.objects;
    const isRecord = (key: string) => layout.exportRecord.has(key) || layout.exportedChanges.has(key);
    let [ended, partly] = [false, 0];
    for (let least = 0; !ended; least += 1) {
      const storage = memoryStorage(new Map(objects));
      let records = 0;
      const dying = aroundCalls(storage, async (work, call) => {
        if (records > least) throw new Crash();
        if (changes(call) && isRecord(call.key)) records += 1;
        return work();
      });
      // The end of a process does not wait for what it began.
      const [end] = await Promise.allSettled([exported(dying)]);
      ended = end.status === "fulfilled";
      const record = await readExported(storage, layout.exportRecord, snapshotId);
      const there = await exportedChanges(storage, [2, 3]);
      // What is listed is whole, also when the end came before the description of the data named it.
      if (record) expect(record.files.length).toBe(files);
      if (ended) expect([there, record]).toEqual([[2, 3], expect.anything()]);
      if (there.length === 1) partly += 1;
      expect(await faultsOf(storage)).toEqual([]);
      await publish(storage, 3);
      await exported(storage);
      expect(await exportedChanges(storage, [2, 3, 4])).toEqual([2, 3, 4]);
      expect(await faultsOf(storage)).toEqual([]);
    }
    expect(partly).toBeGreaterThan(0);
  });
});
