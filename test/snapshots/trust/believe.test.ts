import { beforeAll, expect, test } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { updateLog } from "../../../snapshots/publish/public/log.ts";
import { listPublicTree } from "../../../snapshots/publish/public/site.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { believe, requireStillNewest } from "../../../snapshots/trust/log/believe.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { aroundCalls, contentOf, memoryStorage } from "../../helpers/store/storages.ts";

// What a publisher makes of a log that is set back while it writes. attacks.test.ts sets it back before, and the world lets
// it grow meanwhile.

const signing = { key: testKey() };
type Objects = Map<string, Buffer>;
const signed: Objects = new Map();

const publishOn = (storage: Storage, bri: number) =>
  publishRecords(storage, [market(1), market(2), market(3)], bri, { signing });

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604]) await publishOn(memoryStorage(signed), bri);
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

test("a run whose commit another one has followed, and signed, signs nothing", async () => {
  const storage = memoryStorage(new Map(signed));
  await storage.delete(layout.logCheckpointOf(3));
  const before = await contentOf(storage);
  const commit = (await readCommit(storage, 3))!;
  expect(await updateLog(await listPublicTree(storage), commit, signing)).toEqual([]);
  expect(await contentOf(storage)).toEqual(before);
});

/** A store in which a thief puts a commit of snapshot 1 right above each commit that is made. */
function followed(storage: Storage): Storage {
  return aroundCalls(storage, async (work, { key }, body) => {
    const created = await work();
    if (!body || !key.startsWith(layout.commit.prefix)) return created;
    const { entry, digest } = JSON.parse(String(body));
    const commit = entry.commit + 1;
    const { digest: _, note: __, ...first } = (await readCommit(storage, 1))!;
    const forged = seal({ ...first, entry: { ...first.entry, commit }, previous: digest });
    await storage.putIfAbsent(layout.commit(commit), forged);
    return created;
  });
}

const shown = async (storage: Storage) => String(await storage.get(layout.stableScoreList));
const sizeOf = async (storage: Storage) => String(await storage.get(layout.logCheckpoint)).split("\n")[1];

test("a run that signs shows under the public names what it made, and not what stands above it", async () => {
  const storage = memoryStorage(new Map());
  await publishOn(storage, 601);
  const first = await shown(storage);
  await publishOn(followed(storage), 602);
  expect((await newestCommit(storage))?.entry.commit).toBe(3);
  expect(await shown(storage)).not.toBe(first);
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("2");

  await storage.delete(layout.commit(3));
  await publishOn(storage, 603);
  await rollback(followed(storage), "2", () => new Date("2026-03-02T00:00:00.000Z"), { signing });
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("4");
});
