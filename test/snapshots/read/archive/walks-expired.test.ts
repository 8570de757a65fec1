import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { readPages } from "../../../../snapshots/index/segment.ts";
import { decodeCursor } from "../../../../snapshots/read/archive/paging.ts";
import { ObjectCache } from "../../../../snapshots/read/catalog/caches.ts";
import { directoryStorage } from "../../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { readCommit } from "../../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../../snapshots/store/manifest.ts";
import { readObject } from "../../../../snapshots/store/objects.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { cursorWalk, pagesOf } from "../../../helpers/archive/walk.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { outcome, problemOf } from "../../../helpers/http/proxy-client.ts";
import { inArchiveOrder, publishRecords, recordsAfter, recordsOf } from "../../../helpers/publish/records.ts";
import { testFolder } from "../../../helpers/store/test-folder.ts";

const folder = testFolder();
const original = join(folder, "store");

const before = recordsOf(0, 300);
/** By how many milliseconds markets move, by turns. */
const moves = [3_600_000, 0, 1, 0];
/** Every third market is gone, the newest ten as well; half of the others moved; some are new. */
const after = [
  ...before
    .filter((_, place) => place >= 10 && place % 3 !== 0)
    .map((market, place) => ({ ...market, resolvedAt: later(market.resolvedAt, moves[place % 4]!) })),
  ...recordsOf(60, 90).map((market) => ({
    ...market,
    id: market.id.replace(/^./, "e"),
    slug: `${market.slug}-e`,
  })),
];

function later(time: string, milliseconds: number): string {
  return new Date(Date.parse(time) + milliseconds).toISOString();
}

/** Cursors of walks in commit 1, each with the market it stands after. */
interface Held {
  query: Query;
  cursor: string;
  last: HistoricalMarket;
}
const held: Held[] = [];

beforeAll(async () => {
  const storage = directoryStorage(original);
  await publishRecords(storage, before);
  const proxy = await startArchiveProxy(storage);
  const queries = [{}, { category: "crypto" }, { disputed: "false", min_oracle: 30, outcome: "Yes" }];
  for (const query of queries) {
    for (const page of await pagesOf(cursorWalk(proxy, { ...query, pageSize: 3 }))) {
      if (page.nextCursor) held.push({ query, cursor: page.nextCursor, last: page.markets.at(-1)! });
    }
  }
  await proxy.stop();
  await publishRecords(storage, after);
});

let proxy: ArchiveProxy | undefined;

afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
});

/** A proxy over a copy of the store without some objects of it. */
async function proxyWithout(...keys: string[]): Promise<ArchiveProxy> {
  const copy = join(folder, "copy");
  await rm(copy, { recursive: true, force: true });
  await cp(original, copy, { recursive: true });
  const storage = directoryStorage(copy);
  for (const key of keys) await storage.delete(key);
  proxy = await startArchiveProxy(storage);
  return proxy;
}

describe("a cursor whose commit is no longer in the store", () => {
  test("is 410 with a cursor to the first match strictly after the same place, or null when none follows", async () => {
    const proxy = await proxyWithout(layout.commit(1));
    const resumed = { none: 0, some: 0 };
    for (const { query, cursor, last } of held) {
      const problem = await proxy.problem({ cursor });
      expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED", parameter: "cursor" });
      const expected = recordsAfter(plainFilter(inArchiveOrder(after), query), last);
      resumed[expected.length === 0 ? "none" : "some"] += 1;
      expect(problem.detail).toContain(
        expected.length === 0 ? "No market follows" : "Go on with resumeCursor",
      );
      if (expected.length === 0) expect(problem.resumeCursor).toBeNull();
      else {
        const { markets } = await proxy.page({ cursor: problem.resumeCursor!, pageSize: 500 });
        expect(JSON.stringify(markets)).toBe(JSON.stringify(expected));
      }
    }
    expect(resumed.none).toBeGreaterThan(0);
    expect(resumed.some).toBeGreaterThan(50);
  });

  test("is 410 where the page is kept compressed, and its stored pages are not", async () => {
    const proxy = await proxyWithout();
    const { cursor } = held.find((one) => one.query.category === "crypto")!;
    expect((await proxy.get({ cursor }, { "accept-encoding": "gzip" })).status).toBe(200);
    const storage = directoryStorage(join(folder, "copy"));
    for await (const { key } of storage.list(layout.page.prefix)) await storage.delete(key);
    // Stored pages may leave memory before what was made of them.
    Object.assign(proxy.catalog, { objects: new ObjectCache(storage, 1) });
    expect((await proxy.get({ cursor }, { "accept-encoding": "gzip" })).status).toBe(200);
    const problem = await proxy.problem({ cursor });
    expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED", parameter: "cursor" });
  });

  test("carries filters and a replaced pageSize into the cursor to go on with", async () => {
    const proxy = await proxyWithout(layout.commit(1));
    const { query, cursor } = held.find((one) => one.query.category === "crypto")!;
    const { resumeCursor } = await proxy.problem({ cursor, ...query, pageSize: 7 });
    const page = await proxy.page({ cursor: resumeCursor!, ...query });
    expect(page).toMatchObject({ pageSize: 7, total: plainFilter(after, query).length });
  });

  test("is still refused when something else is wrong with it", async () => {
    const proxy = await proxyWithout(layout.commit(1));
    const { cursor } = held[0]!;
    expect(await proxy.problem({ cursor: `${cursor}=` })).toMatchObject({ code: "INVALID_CURSOR" });
    expect(await proxy.problem({ cursor, tier: "RAW" })).toMatchObject({ code: "CURSOR_MISMATCH" });
  });

  test("begins at the newest market when the place it names lies above all", async () => {
    const newest = inArchiveOrder(after)[0]!;
    const above = held.filter(({ last }) => last.resolvedAt > newest.resolvedAt);
    expect(above.length).toBeGreaterThan(0);
    const proxy = await proxyWithout(layout.commit(1));
    const { resumeCursor } = await proxy.problem({ cursor: above[0]!.cursor, pageSize: 50 });
    expect(await proxy.page({ cursor: resumeCursor! })).toEqual(await proxy.page({ pageSize: 50 }));
  });
});

/** Keys of the objects that the archive of a commit consists of. */
async function reachedBy(storage: Storage, number: number): Promise<string[]> {
  const commit = (await readCommit(storage, number))!;
  const { segments } = await readManifest(storage, commit);
  const keys = [layout.manifest(commit.manifest.hash)];
  for (const segment of segments) {
    const key = layout.segment(segment.hash);
    const pages = readPages(key, await readObject(storage, key, segment));
    keys.push(key, ...pages.map(({ hash }) => layout.page(hash)));
  }
  return keys;
}

describe("a cursor whose snapshot has lost an object", () => {
  test("is 410 whichever object it is, or the page when that object is not needed for it", async () => {
    const storage = directoryStorage(original);
    const current = await reachedBy(storage, 2);
    const gone = (await reachedBy(storage, 1)).filter((key) => !current.includes(key));
    expect(gone.length).toBeGreaterThan(3);
    for (const key of gone) {
      const proxy = await proxyWithout(key);
      const outcomes = new Set<string>();
      for (const [place, { cursor, last, query }] of held.filter((_, place) => place % 3 === 0).entries()) {
        const pageSize = [500, 3][place % 2]!;
        const answer = await proxy.get({ cursor, ...(pageSize === 500 && { pageSize }) });
        outcomes.add(outcome(answer));
        if (answer.status !== 200) {
          const { resumeCursor } = problemOf(answer);
          const expected = recordsAfter(plainFilter(inArchiveOrder(after), query), last);
          expect(resumeCursor === null).toBe(expected.length === 0);
          if (resumeCursor) expect(decodeCursor(resumeCursor).pageSize).toBe(pageSize);
        }
      }
      expect([...outcomes].filter((one) => !["200", "410 CURSOR_EXPIRED"].includes(one))).toEqual([]);
      expect(outcomes).toContain("410 CURSOR_EXPIRED");
      await proxy.stop();
    }
    proxy = undefined;
  });
});
