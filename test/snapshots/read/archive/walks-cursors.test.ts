import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { directoryStorage } from "../../../../snapshots/store/backends/directory.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { idsOf } from "../../../helpers/archive/walk.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { problemOf } from "../../../helpers/http/proxy-client.ts";
import { publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { testFolder } from "../../../helpers/store/test-folder.ts";

const folder = testFolder();
const storage = directoryStorage(join(folder, "store"));
/** Commit 1, 2 and 3; the first and the last have the same content. */
const archives: HistoricalMarket[][] = [recordsOf(0, 300), recordsOf(20, 310), recordsOf(0, 300)];
let proxy: ArchiveProxy;

beforeAll(async () => {
  for (const markets of archives) await publishRecords(storage, markets);
  proxy = await startArchiveProxy(storage);
});

afterAll(() => proxy.stop());

/** What a cursor holds: commit, snapshot id, ordinal, resolvedAt, id, pageSize, filters. */
type Fields = [unknown, unknown, unknown, unknown, unknown, unknown, unknown, ...unknown[]];

const read = (cursor: string): Fields => JSON.parse(Buffer.from(cursor, "base64url").toString());
const spell = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

async function cursorOf(query: Query): Promise<string> {
  return (await proxy.page(query)).nextCursor!;
}

/** A cursor with some of its fields replaced. */
function forged(cursor: string, changes: Partial<Record<keyof Fields & `${number}`, unknown>>): string {
  return spell(Object.assign(read(cursor), changes));
}

describe("a cursor that this service did not give out is 400 INVALID_CURSOR", () => {
  const spellings: [string, (cursor: string) => string][] = [
    ["padding", (cursor) => `${cursor}=`],
    ["a line break", (cursor) => `${cursor}\n`],
    ["a space", (cursor) => ` ${cursor}`],
    ["a character that base64url does not have", (cursor) => `${cursor.slice(0, 8)}.${cursor.slice(8)}`],
    ["a cut end", (cursor) => cursor.slice(0, -1)],
    ["a cut start", (cursor) => cursor.slice(1)],
    ["twice the same", (cursor) => cursor + cursor],
    ["JSON with white space", (cursor) => base64url(JSON.stringify(read(cursor), null, 1))],
    [
      "numbers spelled otherwise",
      (cursor) => base64url(JSON.stringify(read(cursor)).replace("[3,", "[3.0,")),
    ],
    ["an object in place of the list", (cursor) => spell({ ...read(cursor) })],
    ["a field more", (cursor) => spell([...read(cursor), 1])],
    ["a field less", (cursor) => spell(read(cursor).slice(0, -1))],
    ["no JSON", () => base64url("cursor")],
    ["no text", () => Buffer.from([0xff, 0xfe, 0x00]).toString("base64url")],
    ["null", () => base64url("null")],
    ["words", () => "first"],
    ["10 kB", () => "A".repeat(10_000)],
    ["standard base64", (cursor) => Buffer.from(`${JSON.stringify(read(cursor))}??>>`).toString("base64")],
  ];

  const base64url = (text: string) => Buffer.from(text).toString("base64url");

  test.for(spellings)("%s", async ([, change]) => {
    const cursor = await cursorOf({ pageSize: 40, category: "crypto", from: "2025-01-02" });
    const problem = await proxy.problem({ cursor: change(cursor) });
    expect(problem).toMatchObject({ status: 400, code: "INVALID_CURSOR", parameter: "cursor" });
  });

  const other = recordsOf(1_000, 1_001)[0]!.id;
  const forgeries: [string, (fields: Fields) => Parameters<typeof forged>[1]][] = [
    ["the next commit", () => ({ 0: 4 })],
    ["a commit that holds another snapshot", () => ({ 0: 2 })],
    ["commit 2^53 - 1", () => ({ 0: Number.MAX_SAFE_INTEGER })],
    ["commit 10^21", () => ({ 0: 1e21 })],
    ["commit 0", () => ({ 0: 0 })],
    ["a negative commit", () => ({ 0: -1 })],
    ["a fraction of a commit", () => ({ 0: 1.5 })],
    ["a commit in words", () => ({ 0: "1" })],
    [
      "another snapshot",
      ([, snapshot]) => ({ 1: String(snapshot).replace(/^./, (c) => (c === "a" ? "b" : "a")) }),
    ],
    ["a snapshot that is a path", () => ({ 1: "../../../checked.json" })],
    ["the ordinal above", ([, , ordinal]) => ({ 2: Number(ordinal) + 1 })],
    ["the ordinal below", ([, , ordinal]) => ({ 2: Number(ordinal) - 1 })],
    ["the number of markets as ordinal", () => ({ 2: 300 })],
    ["an ordinal far beyond", () => ({ 2: Number.MAX_SAFE_INTEGER })],
    ["a negative ordinal", () => ({ 2: -1 })],
    ["a millisecond more", ([, , , time]) => ({ 3: Number(time) + 1 })],
    ["a millisecond less", ([, , , time]) => ({ 3: Number(time) - 1 })],
    ["another id", () => ({ 4: other })],
    ["no id", () => ({ 4: "" })],
    ["neither id nor time, at a market", () => ({ 3: 0, 4: "" })],
    ["an id and no time, at the beginning", () => ({ 2: 300, 3: 0 })],
    ["a time and no id, at the beginning", () => ({ 2: 300, 4: "" })],
    ["pageSize 0", () => ({ 5: 0 })],
    ["pageSize 501", () => ({ 5: 501 })],
    ["a filter that its market does not match", () => ({ 6: "category=Politics" })],
    ["an unknown filter", () => ({ 6: "colour=red" })],
    ["a page among the filters", () => ({ 6: "category=crypto&page=2" })],
    ["a filter given twice", () => ({ 6: "category=crypto&category=crypto" })],
    ["a filter in another spelling", () => ({ 6: "c%61tegory=crypto" })],
    ["filters in another order", () => ({ 6: "from=2025-01-02T00%3A00%3A00.000Z&category=crypto" })],
    ["a time in another spelling", () => ({ 6: "category=crypto&from=2025-01-02" })],
  ];

  test.for(forgeries)("%s", async ([, change]) => {
    const cursor = await cursorOf({ pageSize: 40, category: "crypto", from: "2025-01-02" });
    const [commit] = read(cursor);
    expect(commit).toBe(3);
    const problem = await proxy.problem({ cursor: forged(cursor, change(read(cursor))) });
    expect(problem).toMatchObject({ status: 400, code: "INVALID_CURSOR", parameter: "cursor" });
  });

  test("the cursor of another store", async () => {
    const elsewhere = directoryStorage(join(folder, "elsewhere"));
    await publishRecords(elsewhere, recordsOf(0, 200));
    const stranger = await startArchiveProxy(elsewhere);
    const { nextCursor } = await stranger.page({ pageSize: 10 });
    await stranger.stop();
    expect(await proxy.problem({ cursor: nextCursor! })).toMatchObject({ code: "INVALID_CURSOR" });
  });

  test("an empty one is no value at all", async () => {
    const problem = await proxy.problem({ cursor: "" });
    expect(problem).toMatchObject({ code: "INVALID_PARAMETER", parameter: "cursor" });
  });
});

describe("what may stand beside a cursor", () => {
  const filters = { category: "crypto", min_oracle: 10, to: "2025-01-10" };

  test("the same filters, in any order and spelling of a time", async () => {
    const cursor = await cursorOf({ ...filters, pageSize: 15 });
    const alone = await proxy.page({ cursor });
    expect(await proxy.page({ cursor, ...filters })).toEqual(alone);
    const respelled = { to: "2025-01-11T00:59:59.999+01:00", min_oracle: 10, category: "crypto" };
    expect(await proxy.page({ ...respelled, cursor })).toEqual(alone);
  });

  test("another pageSize, which the next cursor carries on", async () => {
    const cursor = await cursorOf({ ...filters, pageSize: 15 });
    const expected = plainFilter(archives[2]!, filters).map(({ id }) => id);
    const replaced = await proxy.page({ cursor, pageSize: 4 });
    expect(replaced).toMatchObject({ pageSize: 4, page: 4, count: 4, total: expected.length });
    expect(idsOf(replaced)).toEqual(expected.slice(15, 19));
    const next = await proxy.page({ cursor: replaced.nextCursor! });
    expect(next).toMatchObject({ pageSize: 4, page: 5 });
    expect(idsOf(next)).toEqual(expected.slice(19, 23));
  });

  test.for<[Query, string, string]>([
    [
      { category: "politics", min_oracle: 10, to: "2025-01-10" },
      "category",
      'category: the cursor has "crypto", not "politics"',
    ],
    [
      { category: "crypto", min_oracle: 11, to: "2025-01-10" },
      "min_oracle",
      'min_oracle: the cursor has "10", not "11"',
    ],
    [
      { category: "crypto", min_oracle: 10 },
      "to",
      'to: the cursor has "2025-01-10T23:59:59.999Z", not nothing',
    ],
    [
      { ...{ category: "crypto", min_oracle: 10, to: "2025-01-10" }, tier: "RAW" },
      "tier",
      'tier: the cursor has nothing, not "RAW"',
    ],
  ])(
    "other filters are 400 CURSOR_MISMATCH naming the difference: %j",
    async ([query, parameter, difference]) => {
      const cursor = await cursorOf({ ...filters, pageSize: 15 });
      const problem = await proxy.problem({ ...query, cursor });
      expect(problem).toMatchObject({ status: 400, code: "CURSOR_MISMATCH", parameter });
      expect(problem.detail).toContain(difference);
    },
  );

  test("a page number is refused", async () => {
    const cursor = await cursorOf({ pageSize: 15 });
    expect(await proxy.problem({ cursor, page: 2 })).toMatchObject({
      code: "INVALID_PARAMETER",
      parameter: "page",
    });
  });

  test("a pageSize out of bounds is refused", async () => {
    const cursor = await cursorOf({ pageSize: 15 });
    expect(await proxy.problem({ cursor, pageSize: 501 })).toMatchObject({ parameter: "pageSize" });
  });
});

describe("any change to a cursor", () => {
  /** The page that the fields of a cursor ask for, if they are those of a market of their commit that matches. */
  function expectedPage([commit, , , , id, pageSize, canonical]: Fields): string[] {
    const query = Object.fromEntries(new URLSearchParams(String(canonical)));
    const matching = plainFilter(archives[Number(commit) - 1]!, query);
    const place = matching.findIndex((market) => market.id === id);
    expect(place >= 0 || id === "").toBe(true);
    return matching.slice(place + 1, place + 1 + Number(pageSize)).map((market) => market.id);
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
  const changedField = fc.tuple(fc.nat(6), replacement).map(([place, value]) => (cursor: string) => {
    const fields = read(cursor);
    fields[place] = value;
    return spell(fields);
  });
  const flippedBit = fc.tuple(fc.nat(), fc.nat(7)).map(([place, bit]) => (cursor: string) => {
    const bytes = Buffer.from(cursor, "base64url");
    bytes[place % bytes.length]! ^= 1 << bit;
    return bytes.toString("base64url");
  });
  const changedLetter = fc.tuple(fc.nat(), fc.string({ maxLength: 3 })).map(([place, text]) => {
    return (cursor: string) => {
      const at = place % cursor.length;
      return cursor.slice(0, at) + text + cursor.slice(at + 1);
    };
  });
  // Fields first: what has lost a bit is no list of fields any more.
  const changes = fc
    .tuple(
      fc.array(changedField, { maxLength: 2 }),
      fc.array(fc.oneof(flippedBit, changedLetter), { maxLength: 1 }),
    )
    .map((parts) => parts.flat());

  test("gives the page its fields truly mean, or 400, or 410, and never a fault of the service", async () => {
    const cursors = [
      await cursorOf({ pageSize: 7 }),
      await cursorOf({ pageSize: 30, category: "Crypto", max_integrity: 90 }),
      forged(await cursorOf({ pageSize: 7 }), { 0: 1 }),
    ];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...cursors), changes, async (cursor, list) => {
        const changed = list.reduce((text, change) => change(text), cursor);
        const answer = await proxy.get({ cursor: changed });
        if (answer.status === 200) {
          expect(idsOf(answer.json())).toEqual(expectedPage(read(changed)));
          return;
        }
        expect([400, 410]).toContain(answer.status);
        problemOf(answer);
      }),
      { numRuns: 500 },
    );
  });
});
