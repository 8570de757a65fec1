import { describe, expect, test } from "vitest";
import { publicObjects } from "../../../../proxy/origin/origin.ts";
import { ObjectCache } from "../../../../snapshots/read/catalog/caches.ts";
import { CorruptObjectError, MissingObjectError } from "../../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";

/** A store with three objects of 100 bytes, and what refers to them. */
function store() {
  const objects = new Map<string, Buffer>();
  const refs = ["a", "b", "c"].map((letter) => {
    const bytes = Buffer.from(letter.repeat(100));
    const ref = { hash: sha256(bytes), bytes: bytes.length };
    const key = layout.privateObject(ref.hash);
    objects.set(key, bytes);
    return { key, ref, bytes };
  });
  return { objects, storage: countingStorage(memoryStorage(objects)), refs };
}

describe("objects that are kept", () => {
  test("are fetched once, also for readers that ask at the same time", async () => {
    const { storage, refs } = store();
    const cache = new ObjectCache(storage, 1000);
    const { key, ref, bytes } = refs[0]!;
    const together = await Promise.all([1, 2, 3].map(() => cache.get(key, ref)));
    expect(together).toEqual([bytes, bytes, bytes]);
    expect(await cache.get(key, ref)).toEqual(bytes);
    expect(storage.calls).toHaveLength(1);
  });

  test("take no more bytes than they may, the least recently used going first", async () => {
    const { storage, refs } = store();
    const cache = new ObjectCache(storage, 250);
    const fetched = async (place: number) => {
      const before = storage.calls.length;
      const { key, ref, bytes } = refs[place]!;
      expect(await cache.get(key, ref)).toEqual(bytes);
      return storage.calls.length > before;
    };
    expect(await fetched(0)).toBe(true);
    expect(await fetched(1)).toBe(true);
    expect(await fetched(0)).toBe(false);
    expect(await fetched(2)).toBe(true);
    expect(await fetched(0)).toBe(false);
    expect(await fetched(1)).toBe(true);
  });

  test("keep nothing in memory but what is counted, compressed for the public", async () => {
    const { refs } = store();
    const [{ ref, bytes }] = refs as [(typeof refs)[0]];
    const cache = publicObjects(1000);
    const { gzip } = await cache.get(ref, async () => bytes);
    expect(gzip.buffer.byteLength).toBe(gzip.length);
    expect(cache.counts().bytes).toBe(bytes.length + gzip.length);
  });

  test("are no larger than all that may be kept; a larger one is read each time", async () => {
    const { storage, refs } = store();
    const cache = new ObjectCache(storage, 99);
    const { key, ref, bytes } = refs[0]!;
    expect([await cache.get(key, ref), await cache.get(key, ref)]).toEqual([bytes, bytes]);
    expect(storage.calls).toHaveLength(2);
  });
});

describe("an object that cannot be had", () => {
  test("is an error that names it, and is there once the store has it again", async () => {
    const { objects, storage, refs } = store();
    const cache = new ObjectCache(storage, 1000);
    const { key, ref, bytes } = refs[0]!;
    objects.delete(key);
    await expect(cache.get(key, ref)).rejects.toThrow(MissingObjectError);
    objects.set(key, Buffer.from("b".repeat(100)));
    await expect(cache.get(key, ref)).rejects.toThrow(CorruptObjectError);
    await expect(cache.get(key, ref)).rejects.toThrow(key);
    objects.set(key, Buffer.from("a".repeat(101)));
    await expect(cache.get(key, ref)).rejects.toThrow(CorruptObjectError);
    objects.set(key, bytes);
    expect(await cache.get(key, ref)).toEqual(bytes);
  });

  test("because the store fails is told as that to all who wait for it", async () => {
    const { storage, refs } = store();
    let failing = true;
    const flaky = changedStorage(storage, {
      async get(key, options) {
        if (failing) throw new StorageError(`cannot read ${key}`);
        return storage.get(key, options);
      },
    });
    const cache = new ObjectCache(flaky, 1000);
    const { key, ref, bytes } = refs[0]!;
    const outcomes = await Promise.allSettled([cache.get(key, ref), cache.get(key, ref)]);
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: expect.any(StorageError) });
    failing = false;
    expect(await cache.get(key, ref)).toEqual(bytes);
  });
});
