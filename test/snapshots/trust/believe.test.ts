import { beforeAll, expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { believe, requireStillNewest } from "../../../snapshots/trust/log/believe.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";

// What a publisher makes of a log that grows, or is set back, while it looks. attacks.test.ts sets it back before.

const signing = { key: testKey() };
type Objects = Map<string, Buffer>;
const signed: Objects = new Map();

const publishOn = (storage: Storage, bri: number) =>
  publishRecords(storage, [market(1), market(2), market(3)], bri, { signing });

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604]) await publishOn(memoryStorage(signed), bri);
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
  const taken = memoryStorage(new Map(signed));
  await taken.delete(layout.commit(1));
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
