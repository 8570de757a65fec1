import { beforeAll, describe, expect, test } from "vitest";
import { diff } from "../../../snapshots/maintain/diff.ts";
import { exportSnapshot } from "../../../snapshots/maintain/export.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { believe, requireStillNewest } from "../../../snapshots/trust/log/believe.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { timedStore } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

// Somebody takes the newest commits away. What the publisher's own key signed still names them.

const folder = testFolder();
const ours = testKey();
const signing = { key: ours };
const records = [market(1), market(2), market(3)];
type Objects = Map<string, Buffer>;
const signed: Objects = new Map();

const publishOn = (storage: Storage, bri: number, over?: number) =>
  publishRecords(storage, records, bri, { signing: over === undefined ? signing : { ...signing, over } });

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604]) await publishOn(memoryStorage(signed), bri);
});

/** The signed store without these objects. */
function without(...keys: string[]): Objects {
  const objects = new Map(signed);
  for (const key of keys) objects.delete(key);
  return objects;
}

const sizes = [1, 2, 3, 4].map(layout.logCheckpointOf);

/** Deletes what names the newest commits. */
async function forget(storage: Storage): Promise<void> {
  for (const key of [layout.logCheckpoint, ...sizes, layout.checked]) await storage.delete(key);
}

/** What reads the newest commit of a store beside a publish. */
const readings: readonly ((objects: Objects) => Promise<unknown>)[] = [
  (objects) => rollback(memoryStorage(objects), "2", () => new Date(), { signing }),
  (objects) =>
    exportSnapshot(memoryStorage(objects), undefined, {
      temporaryDirectory: folder,
      progress: () => {},
      signing,
    }),
  (objects) => diff(memoryStorage(objects), "1", "2", { trusted: [ours] }),
  (objects) => timedStore(objects).collect({ signing: { trusted: [ours] } }),
];

const fourth = layout.commit(4);
const refusal = (key: string) => ({
  code: "UNTRUSTED_PREDECESSOR",
  message: expect.stringMatching(
    new RegExp(`${key} is signed and names commit 4.*Put ${fourth} back.*delete ${layout.logCheckpoint}`),
  ),
});

describe("a log without a commit that signed records name", () => {
  test.each([
    ["both", [], layout.logCheckpoint],
    ["checked.json alone", [layout.logCheckpoint, ...sizes], layout.checked],
    ["the checkpoint of its size alone", [layout.logCheckpoint, layout.checked], layout.logCheckpoint],
    ["the checkpoint alone", [layout.checked], layout.logCheckpoint],
  ])("is not built on where %s names it, with its content or another", async (_, taken, key) => {
    for (const bri of [603, 604, 605]) {
      const objects = without(fourth, ...taken);
      const before = [...objects.keys()];
      await expect(publishOn(memoryStorage(objects), bri)).rejects.toMatchObject(refusal(key));
      expect([...objects.keys()]).toEqual(before);
    }
  });

  test("is not built on where an older checkpoint was put in the newest one's place", async () => {
    const objects = without(fourth, layout.checked);
    objects.set(layout.logCheckpoint, signed.get(layout.logCheckpointOf(3))!);
    await expect(publishOn(memoryStorage(objects), 605)).rejects.toMatchObject(refusal(layout.logCheckpoint));
    expect(objects.has(fourth)).toBe(false);
  });

  test("is not rolled back, exported, compared or collected either, and verify tells it", async () => {
    const objects = without(fourth);
    for (const reading of readings)
      await expect(reading(objects)).rejects.toMatchObject(refusal(layout.logCheckpoint));
    const reason = "it is missing, and checked.json names it";
    expect(await faultsOf(memoryStorage(objects))).toContainEqual({ key: fourth, reason });
  });

  test("is built on when the operator takes the signed records away, and all is well then", async () => {
    const storage = memoryStorage(without(fourth));
    await expect(publishOn(storage, 605, 3)).rejects.toMatchObject(refusal(layout.logCheckpoint));
    await forget(storage);
    expect(await publishOn(storage, 605)).toMatchObject({ outcome: "published", commit: 4 });
    expect(await publishOn(storage, 606)).toMatchObject({ outcome: "published", commit: 5 });
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("is not begun anew when all of it is gone", async () => {
    const commits = [1, 2, 3, 4].map(layout.commit);
    const storage = memoryStorage(without(...commits));
    await expect(publishOn(storage, 605)).rejects.toThrow(
      /it has no commit.*delete public\/log\/checkpoint, public\/log\/checkpoints\/ and checked\.json/,
    );
    await forget(storage);
    expect(await publishOn(storage, 605)).toMatchObject({ commit: 1 });
  });
});

test("another commit than the signed one is not built on, although a trusted key signed it too", async () => {
  const fork = new Map(signed);
  for (const key of [fourth, layout.checked, layout.logCheckpoint, ...sizes]) fork.delete(key);
  await publishOn(memoryStorage(fork), 609);
  const objects = new Map(signed).set(fourth, fork.get(fourth)!);
  await expect(publishOn(memoryStorage(objects), 605)).rejects.toThrow(
    /names commit 4, root [0-9a-f]{64}, which the log does not lead to; its newest commit is 4, root/,
  );
  await publishOn(memoryStorage(fork), 610);
  for (const number of [4, 5]) objects.set(layout.commit(number), fork.get(layout.commit(number))!);
  await expect(publishOn(memoryStorage(objects), 605)).rejects.toThrow("its newest commit is 5");
});

test.each([
  ["that of another log of the same key", "other"],
  ["an older commit", "older"],
  ["rubbish", "rubbish"],
])("%s in the newest one's place is refused by all, who say to put that back", async (_, kind) => {
  const other: Objects = new Map();
  if (kind === "other") for (const bri of [701, 702, 703, 704]) await publishOn(memoryStorage(other), bri);
  const older = kind === "older" ? signed.get(layout.commit(3)) : undefined;
  const objects = new Map(signed).set(fourth, other.get(fourth) ?? older ?? Buffer.from("rubbish"));
  const storage = memoryStorage(objects);
  const refused = {
    code: "UNTRUSTED_PREDECESSOR",
    message: expect.stringMatching(new RegExp(`Put (the version back|${fourth}.* back)`)),
  };
  await expect(publishOn(storage, 605)).rejects.toMatchObject(refused);
  for (const reading of readings) await expect(reading(objects)).rejects.toMatchObject(refused);
  objects.set(fourth, signed.get(fourth)!);
  expect(await publishOn(storage, 604)).toMatchObject({ outcome: "unchanged" });
  expect(await faultsOf(storage)).toEqual([]);
});

test("records that no trusted key signed are no evidence, and neither are damaged ones", async () => {
  const thief = testKey(ours.name, "thief");
  const forged: Objects = new Map();
  for (const bri of [601, 602, 603, 604, 605]) {
    await publishRecords(memoryStorage(forged), records, bri, { signing: { key: thief } });
  }
  for (const [run, checkpoint] of [
    [forged.get(layout.checked)!, forged.get(layout.logCheckpoint)!],
    [seal({ checkedAt: "2026-03-01T00:00:00.000Z", commit: 9, outcome: "published" }), Buffer.from("9")],
    [Buffer.from("{}"), Buffer.alloc(100_000)],
  ] as const) {
    const objects = new Map(signed).set(layout.checked, run).set(layout.logCheckpoint, checkpoint);
    expect(await publishOn(memoryStorage(objects), 605)).toMatchObject({ commit: 5 });
  }
});

test("of two publishers at once, the slower one loses, or is refused where the other's commit is gone", async () => {
  for (const taken of [false, true]) {
    const objects = new Map(signed);
    const storage = memoryStorage(objects);
    let met = false;
    // The other one commits when this one has written its manifest.
    const slow = changedStorage(storage, {
      async put(key, body) {
        const created = await storage.put(key, body);
        if (met || !key.startsWith(layout.manifest.prefix)) return created;
        met = true;
        await publishOn(storage, 700);
        if (taken) await storage.delete(layout.commit(5));
        return created;
      },
    });
    const message = taken ? /names commit 5/ : /another publisher made commit 5 first/;
    await expect(publishOn(slow, 605)).rejects.toThrow(message);
    expect((await newestCommit(storage))?.entry.commit).toBe(taken ? 4 : 5);
    expect(await readCommit(storage, 4)).toBeDefined();
  }
});

test("a log of which a witness remembers an entry is not begun anew where it is empty", async () => {
  const evidence = [{ size: 1, says: "witness w has seen a log with" }];
  const { fault } = await believe(memoryStorage(new Map()), undefined, { trust: undefined, evidence });
  expect(fault?.message).toContain(
    "witness w has seen a log with commit 1, which the log does not lead to; it has no commit",
  );
});

test("a run on an empty store says nothing where another has made the first commit meanwhile", async () => {
  await expect(requireStillNewest(memoryStorage(signed), undefined, signing)).resolves.toBeUndefined();
  const taken = memoryStorage(without(layout.commit(1)));
  await expect(requireStillNewest(taken, undefined, signing)).rejects.toThrow(
    /names commit 4.*it has no commit/,
  );
});

test.each([
  ["a store of four commits", () => new Map(signed), 5],
  ["an empty store", () => new Map<string, Buffer>(), 1],
])("a run on %s builds on a commit that is made while it looks", async (_, begin, next) => {
  const commits = next === 1 ? [] : [layout.commit(next)];
  for (const asked of [layout.checked, layout.logCheckpoint, ...commits]) {
    const storage = memoryStorage(begin());
    let met = false;
    const slow = changedStorage(storage, {
      async get(key, options) {
        if (!met && key === asked) {
          met = true;
          await publishOn(storage, 700);
        }
        return storage.get(key, options);
      },
    });
    expect(await publishOn(slow, 605), asked).toMatchObject({ outcome: "published", commit: next + 1 });
    expect(met).toBe(true);
  }
});
