import { describe, expect, test } from "vitest";
import { publicObjects } from "../../../../proxy/origin/origin.ts";
import { AnswerCache, ObjectCache } from "../../../../snapshots/read/catalog/caches.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { CorruptObjectError, MissingObjectError } from "../../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { publishArchive } from "../../../helpers/publish/records.ts";
import { collectGarbage } from "../../../helpers/servers/memory.ts";
import { aroundCalls, faultyStorage, memoryStorage } from "../../../helpers/store/storages.ts";

const names = Array.from({ length: 2000 }, (_, n) => String(n));

/** How many of many entries a cache still has, those that came last. */
async function kept(read: (name: string, make: () => Promise<never>) => Promise<unknown>, entry: unknown) {
  let made = 0;
  const make = async () => {
    made += 1;
    return entry as never;
  };
  for (const name of names) await read(name, make);
  expect(made).toBe(names.length);
  for (const name of names.toReversed()) {
    await read(name, make);
    if (made > names.length) return names.length - 1 - Number(name);
  }
  return names.length;
}

const catalogOf = (cacheBytes: number) => new Catalog(memoryStorage(new Map()), { cacheBytes });

test("the caches of a catalog share its bytes: half for objects, an eighth for what follows from them", async () => {
  const { objects, derived } = catalogOf(1_280_000);
  expect(await kept((name, make) => objects.kept.get(name, make), Buffer.alloc(1000))).toBe(640);
  expect(objects.kept.counts()).toEqual({ bytes: 640_000, hits: 640, misses: 2001 });
  // Beside each, what its entry takes.
  const piece = (bytes: number) => ({ bytes: Buffer.allocUnsafeSlow(bytes).subarray(0, 1) });
  expect(await kept((name, make) => derived.pieces.get(name, make), piece(800))).toBe(120);
  expect(await kept((name, make) => derived.pieces.get(name, make), piece(801))).toBe(119);
  expect(await kept((name, make) => derived.ids.get(name, make), "id")).toBe(100);
  expect(await kept((name, make) => derived.hashes.get(name, make), Buffer.alloc(300))).toBe(40);
});

test("an entry that is being made reaches those who wait for it, though others took its place", async () => {
  const { objects } = catalogOf(2000);
  const made = Promise.withResolvers<Buffer>();
  const waiting = objects.kept.get("slow", () => made.promise);
  for (const name of ["a", "b"]) await objects.kept.get(name, async () => Buffer.alloc(1000));
  made.resolve(Buffer.from("slow"));
  expect(String(await waiting)).toBe("slow");
});

/** A cache over a store with three objects of 100 bytes; `read` gets one, and says whether it was fetched for that. */
function cacheOf(maxBytes: number) {
  const objects = new Map<string, Buffer>();
  const refs = ["a", "b", "c"].map((letter) => {
    const bytes = Buffer.from(letter.repeat(100));
    const ref = { hash: sha256(bytes), bytes: bytes.length };
    const key = layout.privateObject(ref.hash);
    objects.set(key, bytes);
    return { key, ref, bytes };
  });
  const storage = faultyStorage(memoryStorage(objects));
  let fetched = 0;
  const counted = aroundCalls(storage, (work) => {
    fetched += 1;
    return work();
  });
  const cache = new ObjectCache(counted, maxBytes);
  const read = async (place: number) => {
    const before = fetched;
    const { key, ref, bytes } = refs[place]!;
    expect(await cache.get(key, ref)).toEqual(bytes);
    return fetched > before;
  };
  return { objects, refs, storage, read, fetched: () => fetched };
}

describe("objects", () => {
  test("are fetched once, also for readers that ask at the same time", async () => {
    const { fetched, read } = cacheOf(1000);
    await Promise.all([1, 2, 3].map(() => read(0)));
    expect([await read(0), fetched()]).toEqual([false, 1]);
  });

  test("take no more bytes than they may, the least recently used going first, and too large ones are not kept", async () => {
    const { read } = cacheOf(250);
    const fetched: boolean[] = [];
    for (const place of [0, 1, 0, 2, 0, 1]) fetched.push(await read(place));
    expect(fetched).toEqual([true, true, false, true, false, true]);
    const { read: readLarge } = cacheOf(99);
    expect([await readLarge(0), await readLarge(0)]).toEqual([true, true]);
  });

  test("for the public are counted with all that they keep in memory, compressed", async () => {
    const { ref, bytes } = cacheOf(1000).refs[0]!;
    const cache = publicObjects(1000);
    const { gzip } = await cache.get(ref, async () => bytes);
    expect(gzip.buffer.byteLength).toBe(gzip.length);
    expect(cache.counts().bytes).toBe(bytes.length + gzip.length);
  });

  test("that cannot be had are named to all who wait, and are there once the store has them again", async () => {
    const { objects, refs, storage, read } = cacheOf(1000);
    const { key, bytes } = refs[0]!;
    const failed = async (kind: abstract new (...args: never[]) => Error) => {
      for (const outcome of await Promise.allSettled([read(0), read(0)])) {
        expect(outcome).toMatchObject({ reason: { message: expect.stringContaining(key) } });
        expect(outcome).toMatchObject({ reason: expect.any(kind) });
      }
    };
    objects.delete(key);
    await failed(MissingObjectError);
    for (const other of ["b".repeat(100), "a".repeat(101)]) {
      objects.set(key, Buffer.from(other));
      await failed(CorruptObjectError);
    }
    objects.set(key, bytes);
    storage.fails = () => true;
    await failed(StorageError);
    storage.fails = () => false;
    expect(await read(0)).toBe(true);
  });
});

const mebibyte = 1024 * 1024;

/** A snapshot that nothing else holds. */
async function loaded(): Promise<Snapshot> {
  const storage = memoryStorage(new Map());
  await publishArchive(storage);
  const catalog = new Catalog(storage, { cacheBytes: mebibyte });
  await catalog.refresh();
  return catalog.snapshot();
}

/** A text of its own, flat in memory as one that came over the wire. */
const text = (length: number, n: number) => Buffer.from(String(n).padEnd(length, "x")).toString("latin1");

async function used(): Promise<number> {
  await collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const pageOf = (snapshot: Snapshot, { cursor = "", ordinals = 0, parts = [] as Buffer[] } = {}) => ({
  ...{ snapshot, etag: "W/x", ordinals: Array<number>(ordinals).fill(0) },
  numbers: { count: 0, total: 0, page: 1, pageSize: 1, nextCursor: cursor },
  spliced: { parts, rawBytes: 0, crc: 0 },
});

test.each<[string, length: number, sizes: { cursor?: number; ordinals?: number; parts?: number }]>([
  ["long queries", 15_000, {}],
  ["long cursors", 100, { cursor: 6000 }],
  ["many ordinals", 100, { ordinals: 2000 }],
  ["many parts", 100, { parts: 500 }],
])(
  "pages of %s take no more memory than they may",
  async (_, length, { cursor = 0, ordinals, parts = 0 }) => {
    const snapshot = await loaded();
    const before = await used();
    const cache = new AnswerCache(mebibyte);
    const stored = Buffer.allocUnsafeSlow(1000);
    const count = 1200;
    for (let n = 0; n < count; n += 1) {
      // Of one stored page, which is counted once.
      const views = Array.from({ length: parts }, () => stored.subarray(1, 9));
      cache.set(text(length, n), pageOf(snapshot, { cursor: text(cursor, n), ordinals, parts: views }));
    }
    expect((await used()) - before).toBeLessThan(4 * mebibyte);
    const newest = cache.get(text(length, count - 1));
    expect(newest).toMatchObject({ snapshot, numbers: { nextCursor: text(cursor, count - 1) } });
    expect(cache.get(text(length, 0))).toBeUndefined();
    cache.clear();
    expect(cache.get(text(length, count - 1))).toBeUndefined();
  },
);

test("a page does not keep its snapshot in memory", async () => {
  const cache = new AnswerCache(mebibyte);
  const held = await loaded();
  const fill = async () => cache.set("gone", pageOf(await loaded()));
  await fill();
  cache.set("held", pageOf(held));
  await collectGarbage();
  expect(cache.get("gone")).toBeUndefined();
  expect(cache.get("held")?.snapshot).toBe(held);
});
