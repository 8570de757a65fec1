import { beforeAll, describe, expect, test } from "vitest";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { openPublicLog, proveCommit } from "../../../../snapshots/read/catalog/public-log.ts";
import { CorruptObjectError } from "../../../../snapshots/store/errors.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../../snapshots/trust/log/log-reader.ts";
import { market, publishRecords } from "../../../helpers/publish/records.ts";
import { testKey } from "../../../helpers/store/signing.ts";
import { changedStorage, memoryStorage } from "../../../helpers/store/storages.ts";

/** A signed store of two commits, whose tile of hashes is this object. */
const published = new Map<string, Buffer>();
const tile = layout.logTile("0/000.p/2");
beforeAll(async () => {
  for (const bri of [1, 2])
    await publishRecords(memoryStorage(published), [market(1)], bri, { signing: { key: testKey() } });
});

/** A reader of a store of its own, in which the tile may be another. */
async function readerOf(bytes = published.get(tile)) {
  const objects = new Map(published);
  if (bytes) objects.set(tile, bytes);
  let failing = false;
  const storage = changedStorage(memoryStorage(objects), {
    async get(key, options) {
      if (failing && key === tile) throw new StorageError("no");
      return memoryStorage(objects).get(key, options);
    },
  });
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  const publicLog = openPublicLog(storage, catalog.log, readAnyLog(storage));
  const checkpoint = (await publicLog.checkpoint())!;
  const prove = async (number: number, by = checkpoint) =>
    proveCommit(publicLog, (await catalog.log.commit(number))!, by);
  const fail = () => {
    failing = true;
  };
  return { objects, checkpoint, prove, fail };
}

describe("that a log has a commit", () => {
  // That it holds for each commit is in test/conformance/log-proofs.test.ts.
  test("is not proven by a checkpoint before it", async () => {
    const { checkpoint, prove } = await readerOf();
    const alone = { commit: 2, checkpoint: null, inclusion: null };
    expect(await prove(2, { ...checkpoint, size: 1 })).toMatchObject(alone);
  });

  test("is proven by the commits where tiles are altered or gone, and by tiles where commits are", async () => {
    for (const bytes of [Buffer.alloc(64, 7), Buffer.alloc(1)])
      expect((await (await readerOf(bytes)).prove(1)).inclusion).toHaveLength(1);
    const without = await readerOf();
    without.objects.delete(tile);
    expect((await without.prove(1)).inclusion).toHaveLength(1);
    const beginning = await readerOf();
    beginning.objects.delete(layout.commit(1));
    expect((await beginning.prove(2)).inclusion).toHaveLength(1);
  });

  test("is not proven where neither commits nor tiles tell, or the store cannot be read", async () => {
    const robbed = async (bytes?: Buffer) => {
      const reader = await readerOf(bytes);
      for (const key of [layout.commit(1), layout.logTile("0/000.p/1")]) reader.objects.delete(key);
      return reader;
    };
    const other = await robbed(Buffer.alloc(64, 7));
    await expect(other.prove(2)).rejects.toThrow("not the tree of 2 commits that was signed");
    const missing = await robbed();
    missing.objects.delete(tile);
    await expect(missing.prove(2)).rejects.toBeInstanceOf(CorruptObjectError);
    const away = await robbed();
    away.fail();
    await expect(away.prove(2)).rejects.toBeInstanceOf(StorageError);
  });
});
