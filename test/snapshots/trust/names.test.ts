import { expect, test } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";

const ours = testKey();
const signing = { key: ours };
const records = [market(1), market(2), market(3)];

/** A store in which a thief puts a commit of snapshot 1 right above each commit that is made. */
function followed(storage: Storage): Storage {
  return changedStorage(storage, {
    async putIfAbsent(key, body) {
      const created = await storage.putIfAbsent(key, body);
      if (!key.startsWith(layout.commit.prefix)) return created;
      const { entry, digest } = JSON.parse(String(body));
      const commit = entry.commit + 1;
      const { digest: _, note: __, ...first } = (await readCommit(storage, 1))!;
      const forged = seal({ ...first, entry: { ...first.entry, commit }, previous: digest });
      await storage.putIfAbsent(layout.commit(commit), forged);
      return created;
    },
  });
}

const shown = async (storage: Storage) => String(await storage.get(layout.stableScoreList));
const sizeOf = async (storage: Storage) => String(await storage.get(layout.logCheckpoint)).split("\n")[1];

test("a run that signs shows under the public names what it made, and not what stands above it", async () => {
  const storage = memoryStorage(new Map());
  await publishRecords(storage, records, 601, { signing });
  const first = await shown(storage);
  await publishRecords(followed(storage), records, 602, { signing });
  expect((await newestCommit(storage))?.entry.commit).toBe(3);
  expect(await shown(storage)).not.toBe(first);
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("2");

  await storage.delete(layout.commit(3));
  await publishRecords(storage, records, 603, { signing });
  await rollback(followed(storage), "2", () => new Date("2026-03-02T00:00:00.000Z"), { signing });
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("4");
});
