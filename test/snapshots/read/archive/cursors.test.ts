import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { readPages } from "../../../../snapshots/index/segment.ts";
import { decodeCursor, encodeCursor } from "../../../../snapshots/read/archive/paging.ts";
import { ObjectCache } from "../../../../snapshots/read/catalog/caches.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { readCommit } from "../../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { archiveQuery } from "../../../helpers/archive/query.ts";
import { cursorWalk, idsOf, pagesOf } from "../../../helpers/archive/walk.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { wantsRows } from "../../../helpers/http/ndjson.ts";
import { outcome, problemOf } from "../../../helpers/http/proxy-client.ts";
import { inArchiveOrder, publishRecords, recordsAfter, recordsOf } from "../../../helpers/publish/records.ts";
import { alteredText } from "../../../helpers/store/altered.ts";
import { drawing } from "../../../helpers/store/drawing.ts";
import { memoryStorage } from "../../../helpers/store/storages.ts";
import type { Objects } from "../../../helpers/store/tamper.ts";

/** A proxy for one test. */
async function start(storage: Storage): Promise<ArchiveProxy> {
  const proxy = await startArchiveProxy(storage);
  onTestFinished(() => proxy.stop());
  return proxy;
}

describe("a cursor", () => {
  /** Commit 1, 2 and 3; the first and the last have the same content. */
  const archives: HistoricalMarket[][] = [recordsOf(0, 300), recordsOf(20, 310), recordsOf(0, 300)];
  const snapshots: string[] = [];
  let proxy: ArchiveProxy;
  beforeAll(async () => {
    const storage = memoryStorage(new Map());
    for (const markets of archives) snapshots.push((await publishRecords(storage, markets)).snapshotId);
    proxy = await startArchiveProxy(storage);
  });
  afterAll(() => proxy.stop());
  const cursorOf = async (query: Query) => (await proxy.page(query)).nextCursor!;

  /** What a cursor holds: commit, snapshot id, ordinal, resolvedAt, id, pageSize, filters. */
  type Fields = [unknown, unknown, unknown, unknown, unknown, unknown, unknown, ...unknown[]];
  const read = (cursor: string): Fields => JSON.parse(Buffer.from(cursor, "base64url").toString());
  const base64url = (text: string) => Buffer.from(text).toString("base64url");
  const spell = (value: unknown) => base64url(JSON.stringify(value));

  type Changes = { [place: number]: unknown };
  // Of changes of any kind, see below; these are the ones that a change by chance may miss.
  test.for<[what: string, change: Changes | ((cursor: string, fields: Fields) => string | Changes)]>([
    ["padding", (cursor) => `${cursor}=`],
    ["JSON with white space", (_, fields) => base64url(JSON.stringify(fields, null, 1))],
    ["numbers spelled otherwise", (_, fields) => base64url(JSON.stringify(fields).replace("[3,", "[3.0,"))],
    ["a field more", (_, fields) => spell([...fields, 1])],
    ["null", () => base64url("null")],
    ["a commit that holds another snapshot", { 0: 2 }],
    ["a snapshot that is a path", { 1: "../../../checked.json" }],
    ["the ordinal above", (_, [, , ordinal]) => ({ 2: Number(ordinal) + 1 })],
    ["the number of markets as ordinal", { 2: 300 }],
    ["a millisecond more", (_, [, , , time]) => ({ 3: Number(time) + 1 })],
    ["neither id nor time, at a market", { 3: 0, 4: "" }],
    ["an id and no time, at the beginning", { 2: 300, 3: 0 }],
    ["pageSize 501", { 5: 501 }],
    ["a page among the filters", { 6: "category=crypto&page=2" }],
    ["a filter in another spelling", { 6: "c%61tegory=crypto" }],
    ["filters in another order", { 6: "from=2025-01-02T00%3A00%3A00.000Z&category=crypto" }],
    ["a time in another spelling", { 6: "category=crypto&from=2025-01-02" }],
  ])("that this service did not give out is 400 INVALID_CURSOR: %s", async ([, change]) => {
    const cursor = await cursorOf({ pageSize: 40, category: "crypto", from: "2025-01-02" });
    const fields = read(cursor);
    expect(fields[0]).toBe(3);
    const changed = typeof change === "function" ? change(cursor, fields) : change;
    const given = typeof changed === "string" ? changed : spell(Object.assign(fields, changed));
    const problem = await proxy.problem({ cursor: given });
    expect(problem).toMatchObject({ status: 400, code: "INVALID_CURSOR", parameter: "cursor" });
  });

  const filters = { category: "crypto", min_oracle: 10, to: "2025-01-10" };

  test("may have the same filters beside it, in any order and spelling of a time", async () => {
    const cursor = await cursorOf({ ...filters, pageSize: 15 });
    const alone = await proxy.page({ cursor });
    expect(await proxy.page({ cursor, ...filters })).toEqual(alone);
    const respelled = { to: "2025-01-11T00:59:59.999+01:00", min_oracle: 10, category: "crypto" };
    expect(await proxy.page({ ...respelled, cursor })).toEqual(alone);
  });

  test("may have another pageSize beside it, which the next cursor carries on", async () => {
    const cursor = await cursorOf({ ...filters, pageSize: 15 });
    const expected = plainFilter(archives[2]!, filters).map(({ id }) => id);
    const replaced = await proxy.page({ cursor, pageSize: 4 });
    expect(replaced).toMatchObject({ pageSize: 4, page: 4, count: 4, total: expected.length });
    expect(idsOf(replaced)).toEqual(expected.slice(15, 19));
    const next = await proxy.page({ cursor: replaced.nextCursor! });
    expect(next).toMatchObject({ pageSize: 4, page: 5 });
    expect(idsOf(next)).toEqual(expected.slice(19, 23));
  });

  describe("that is changed in any way", () => {
    /** The page that the fields of a cursor ask for; each of them must be true of its market, which must match. */
    function expectedPage([commit, snapshotId, ordinal, time, id, pageSize, canonical]: Fields): string[] {
      const archive = archives[Number(commit) - 1]!;
      expect(snapshotId).toBe(snapshots[Number(commit) - 1]);
      const query = Object.fromEntries(new URLSearchParams(String(canonical)));
      const matching = plainFilter(archive, query);
      const place = matching.findIndex((market) => market.id === id);
      const market = matching[place];
      // The oldest market has ordinal 0.
      const named = market
        ? [archive.length - 1 - archive.indexOf(market), Date.parse(market.resolvedAt), market.id]
        : [archive.length, 0, ""];
      expect([ordinal, time, id]).toEqual(named);
      return matching.slice(place + 1, place + 1 + Number(pageSize)).map((each) => each.id);
    }

    const replacement = fc.oneof(
      fc.integer(),
      fc.integer({ min: 0, max: 310 }),
      fc.maxSafeInteger(),
      fc.double(),
      fc.string(),
      fc.constantFrom("", "tier=RAW", "category=crypto", "min_oracle=0", ...archives[0]!.map(({ id }) => id)),
      fc.jsonValue(),
    );
    const changedField = fc.tuple(fc.nat(6), replacement).map(
      ([place, value]) =>
        (cursor: string) =>
          spell(read(cursor).with(place, value)),
    );
    const changedText = fc.integer().map((seed) => (cursor: string) => alteredText(cursor, drawing(seed)));
    // Fields first: what has lost a letter is no list of fields any more.
    const changes = fc
      .tuple(fc.array(changedField, { maxLength: 2 }), fc.array(changedText, { maxLength: 1 }))
      .map((parts) => parts.flat());

    test("gives the page its fields truly mean, or 400, or 410, and never a fault of the service", async () => {
      const cursors = [
        await cursorOf({ pageSize: 7 }),
        await cursorOf({ pageSize: 30, category: "Crypto", max_integrity: 90 }),
        spell(read(await cursorOf({ pageSize: 7 })).with(0, 1)),
      ];
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...cursors), changes, async (cursor, list) => {
          const changed = list.reduce((text, change) => change(text), cursor);
          const answer = await proxy.get({ cursor: changed });
          if (answer.status === 200) {
            expect(idsOf(answer.json())).toEqual(expectedPage(read(changed)));
            // A cursor has one spelling.
            expect(spell(read(changed))).toBe(changed);
            return;
          }
          expect([400, 410]).toContain(answer.status);
          problemOf(answer);
        }),
        { numRuns: 250 },
      );
    });
  });
});

describe("a cursor whose snapshot is not kept", () => {
  const before = recordsOf(0, 300);
  const later = (time: string, milliseconds: number) =>
    new Date(Date.parse(time) + milliseconds).toISOString();
  /** Every third market is gone, the newest ten as well; half of the others moved; some are new. */
  const after = inArchiveOrder([
    ...before
      .filter((_, place) => place >= 10 && place % 3 !== 0)
      .map((market, place) => ({
        ...market,
        resolvedAt: later(market.resolvedAt, [3_600_000, 0, 1, 0][place % 4]!),
      })),
    ...recordsOf(60, 90).map((market) => ({
      ...market,
      id: market.id.replace(/^./, "e"),
      slug: `${market.slug}-e`,
    })),
  ]);
  const original: Objects = new Map();
  /** Cursors of walks in commit 1, each with the market it stands after. */
  const held: { query: Query; cursor: string; last: HistoricalMarket }[] = [];
  const expectedAfter = ({ query, last }: (typeof held)[number]) =>
    recordsAfter(plainFilter(after, query), last);
  const ofCrypto = () => held.find(({ query }) => query.category === "crypto")!;

  beforeAll(async () => {
    const storage = memoryStorage(original);
    await publishRecords(storage, before);
    const proxy = await startArchiveProxy(storage);
    for (const query of [{}, { category: "crypto" }, { disputed: "false", min_oracle: 30, outcome: "Yes" }])
      for (const page of await pagesOf(cursorWalk(proxy, { ...query, pageSize: 4 })))
        if (page.nextCursor) held.push({ query, cursor: page.nextCursor, last: page.markets.at(-1)! });
    await proxy.stop();
    await publishRecords(storage, after);
  });

  /** A proxy over a copy of the store without some objects of it. */
  function proxyWithout(...keys: string[]): Promise<ArchiveProxy> {
    const copy = new Map(original);
    for (const key of keys) copy.delete(key);
    return start(memoryStorage(copy));
  }

  test("is 410 with a cursor to the first match strictly after the same place, or null when none follows", async () => {
    const proxy = await proxyWithout(layout.commit(1));
    const resumed = { none: 0, some: 0 };
    for (const one of held) {
      const problem = await proxy.problem({ cursor: one.cursor });
      expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED", parameter: "cursor" });
      const expected = expectedAfter(one);
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
    const objects = new Map(original);
    const proxy = await start(memoryStorage(objects));
    const { cursor } = ofCrypto();
    const gzipped = async () => (await proxy.get({ cursor }, { "accept-encoding": "gzip" })).status;
    expect(await gzipped()).toBe(200);
    for (const key of objects.keys()) if (key.startsWith(layout.page.prefix)) objects.delete(key);
    // Stored pages may leave memory before what was made of them.
    Object.assign(proxy.catalog, { objects: new ObjectCache(memoryStorage(objects), 1) });
    expect(await gzipped()).toBe(200);
    const problem = await proxy.problem({ cursor });
    expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED", parameter: "cursor" });
  });

  test("carries filters and a replaced pageSize into the cursor to go on with", async () => {
    const proxy = await proxyWithout(layout.commit(1));
    const { query, cursor } = ofCrypto();
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

  /** Keys of the objects that the archive of a commit consists of. */
  async function reachedBy(number: number): Promise<string[]> {
    const storage = memoryStorage(original);
    const commit = (await readCommit(storage, number))!;
    const { segments } = await readManifest(storage, commit);
    const pagesIn = (key: string) => readPages(key, original.get(key)!).map(({ hash }) => layout.page(hash));
    const keys = segments.map(({ hash }) => layout.segment(hash));
    return [layout.manifest(commit.manifest.hash), ...keys.flatMap((key) => [key, ...pagesIn(key)])];
  }

  test("is 410 whichever object is gone, or the page when that object is not needed for it", async () => {
    const current = await reachedBy(2);
    const gone = (await reachedBy(1)).filter((key) => !current.includes(key));
    expect(gone.length).toBeGreaterThan(3);
    const allRows = [wantsRows, { accept: "text/csv" }];
    /** With which forms and skips rows were refused. */
    const answered = new Set<number>();
    for (const key of gone) {
      const proxy = await proxyWithout(key);
      const outcomes = new Set<string>();
      for (const [place, one] of held.filter((_, place) => place % 5 === 0).entries()) {
        const pageSize = [500, 4][place % 2]!;
        const answer = await proxy.get({ cursor: one.cursor, ...(pageSize === 500 && { pageSize }) });
        const rows = await proxy.get({ cursor: one.cursor, skip: place % 2 }, allRows[place % 4 < 2 ? 0 : 1]);
        for (const each of [answer, rows]) outcomes.add(outcome(each));
        if (rows.status === 410) {
          answered.add(place % 4);
          expect("resumeCursor" in problemOf(rows)).toBe(place % 2 === 0);
        }
        if (answer.status === 200) continue;
        const { resumeCursor } = problemOf(answer);
        expect(resumeCursor === null).toBe(expectedAfter(one).length === 0);
        if (resumeCursor) expect(decodeCursor(resumeCursor).pageSize).toBe(pageSize);
      }
      expect([...outcomes].filter((one) => !["200", "410 CURSOR_EXPIRED"].includes(one))).toEqual([]);
      expect(outcomes).toContain("410 CURSOR_EXPIRED");
    }
    expect(answered.size).toBe(4);
  });
});

// What is refused is in test/proxy/corpus.txt, and what filters select in test/snapshots/read/archive/filters.test.ts.

test.each([
  ["tier=MITHRIL,FORGED,RAW,ADAMANTINE,TEMPERED", "tier=RAW,FORGED,TEMPERED,MITHRIL,ADAMANTINE"],
  ["from=2026-02-01&to=2026-02-01", "from=2026-02-01T00:00:00.000Z&to=2026-02-01T23:59:59.999Z"],
  ["q=8+7+6+5+4+3+2+1", "q=1%202%203%204%205%206%207%208"],
  ["q=fed+FED&page=1", "q=fed"],
])("the filter of %s is spelled in one way", (given, canonical) => {
  expect(archiveQuery(given).filter.canonical).toBe(canonical);
});

const wordOf = (text: string, prefix = false) => ({ text, prefix });
test.each([
  ["q=elections+elect*", [wordOf("elections")]],
  ["q=elections+elect", [wordOf("elect"), wordOf("elections")]],
  ["q=will*+willow*+willo*+wi*", [wordOf("willow", true)]],
  ["q=fed+fed*+federal*", [wordOf("fed"), wordOf("federal", true)]],
])("the words that %s looks up are those that no other implies", (given, words) => {
  expect(archiveQuery(given).filter.words).toEqual(words);
});

test("a cursor may lead to the oldest market", () => {
  const { filter } = archiveQuery("tier=RAW&q=fed");
  const after = { resolvedAt: 0, id: "00000000-0000-4000-8000-000000000000" };
  const cursor = { commit: 1, snapshotId: "0f".repeat(32), ordinal: 0, ...after, pageSize: 1, filter };
  expect(decodeCursor(encodeCursor(cursor))).toEqual(cursor);
});
