import { expect, test } from "vitest";
import { AnswerCache } from "../../../../snapshots/read/catalog/caches.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { publishArchive } from "../../../helpers/publish/records.ts";
import { collectGarbage } from "../../../helpers/servers/memory.ts";
import { memoryStorage } from "../../../helpers/store/storages.ts";

const mebibyte = 1024 * 1024;

/** A snapshot that nothing else holds. */
async function loaded(): Promise<Snapshot> {
  const storage = memoryStorage(new Map());
  await publishArchive(storage);
  const catalog = new Catalog(storage, { cacheBytes: mebibyte });
  await catalog.refresh();
  return catalog.snapshot();
}

const stored = Buffer.allocUnsafeSlow(1000);
const page = (snapshot: Snapshot, { cursor = "", parts = 0 } = {}) => ({
  snapshot,
  etag: "W/x",
  numbers: { count: 0, total: 0, page: 1, pageSize: 1, nextCursor: cursor },
  ordinals: [],
  // Of one stored page, which is counted once.
  spliced: { parts: Array.from({ length: parts }, () => stored.subarray(1, 9)), rawBytes: 8 * parts, crc: 0 },
});

/** A text of its own, flat in memory as one that came over the wire. */
const text = (length: number, n: number) => Buffer.from(String(n).padEnd(length, "x")).toString("latin1");

async function used(): Promise<number> {
  await collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test.each([
  ["long queries", 15_000, {}],
  ["long cursors", 100, { cursor: 6000 }],
  ["many parts", 100, { parts: 500 }],
])(
  "pages of %s take no more memory than they may",
  async (_what, length, { cursor = 0, parts = 0 }: { cursor?: number; parts?: number }) => {
    const snapshot = await loaded();
    const before = await used();
    const cache = new AnswerCache(4 * mebibyte);
    for (let n = 0; n < 5000; n += 1)
      cache.set(text(length, n), page(snapshot, { cursor: text(cursor, n), parts }));
    expect((await used()) - before).toBeLessThan(8 * mebibyte);
    expect(cache.get(text(length, 4999))).toMatchObject({
      snapshot,
      numbers: { nextCursor: text(cursor, 4999) },
    });
    expect(cache.get(text(length, 0))).toBeUndefined();
  },
);

test("a page does not keep its snapshot in memory", async () => {
  const cache = new AnswerCache(mebibyte);
  const held = await loaded();
  const fill = async () => cache.set("gone", page(await loaded()));
  await fill();
  cache.set("held", page(held));
  await collectGarbage();
  expect(cache.get("gone")).toBeUndefined();
  expect(cache.get("held")?.snapshot).toBe(held);
});
