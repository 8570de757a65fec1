import { expect, test } from "vitest";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { PublicLog, proofText, proveCommit } from "../../../../snapshots/read/catalog/public-log.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../../snapshots/trust/log/log-reader.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { testKey } from "../../../helpers/store/signing.ts";
import { changedStorage, memoryStorage } from "../../../helpers/store/storages.ts";

test("that a log has a commit is proven up to the checkpoint that is at hand, and not where the store fails", async () => {
  const objects = new Map<string, Buffer>();
  const stored = memoryStorage(objects);
  for (const bri of [1, 2]) await publishRecords(stored, [market(1)], bri, { signing: { key: testKey() } });
  let failing = false;
  const storage = changedStorage(stored, {
    async get(key, options) {
      if (failing && key.startsWith(layout.logTile.prefix)) throw new StorageError("no");
      return stored.get(key, options);
    },
  });
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  const publicLog = new PublicLog(storage, catalog.log, readAnyLog(storage));
  const checkpoint = (await publicLog.checkpoint())!;
  const commit = (await catalog.log.commit(2))!;
  const proven = {
    commit: 2,
    checkpoint: checkpoint.note,
    inclusion: [expect.stringMatching(/^[0-9a-f]{64}$/)],
  };
  expect(await proveCommit(publicLog, commit, checkpoint)).toMatchObject(proven);
  const alone = { commit: 2, checkpoint: null, inclusion: null };
  for (const before of [undefined, { ...checkpoint, size: 1 }])
    expect(await proveCommit(publicLog, commit, before)).toMatchObject(alone);
  for (const key of [layout.commit(1), layout.logTile("0/000.p/1")]) objects.delete(key);
  failing = true;
  const another = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await another.refresh();
  const away = new PublicLog(storage, another.log, readAnyLog(storage));
  await expect(proveCommit(away, commit, checkpoint)).rejects.toBeInstanceOf(StorageError);
});

test("a proof is told as text where there is a checkpoint", () => {
  const hash = Buffer.alloc(32, 5);
  const level = { index: 0, size: 1, path: [] };
  const proof = {
    ...{ score: "{}", snapshotId: "s", commit: 3, entry: "e", checkpoint: "signed\n" },
    proof: { score: level, inclusion: [hash.toString("hex")] },
  };
  const extra = { score: "{}", snapshotId: "s", entry: "e", commit: 3, proof: { score: level } };
  expect(proofText(proof)).toBe(
    `c2sp.org/tlog-proof@v1\nextra ${Buffer.from(JSON.stringify(extra)).toString("base64")}\nindex 2\n` +
      `${hash.toString("base64")}\n\nsigned\n`,
  );
  expect(proofText({ ...proof, checkpoint: null })).toBeUndefined();
  expect(proofText({ ...proof, proof: { ...proof.proof, inclusion: null } })).toBeUndefined();
});
