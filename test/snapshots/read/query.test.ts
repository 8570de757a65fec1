import { expect, test } from "vitest";
import { type FacetQuery, parseFacetQuery } from "../../../snapshots/read/archive/counts.ts";
import { decodeCursor, encodeCursor } from "../../../snapshots/read/archive/paging.ts";
import { parseChangesQuery } from "../../../snapshots/read/changes/changes.ts";
import { isoOf } from "../../../snapshots/read/sharing/sharing.ts";
import { archiveQuery, rowsQuery } from "../../helpers/archive/query.ts";

const id = "0f".repeat(32);
const facets = (...given: [string, string][]): FacetQuery =>
  parseFacetQuery(new Map<string, string>([["by", "tier"], ...given]));

test("what a query leaves out is undefined, or what it stands for", () => {
  const none = { page: undefined, pageSize: undefined, cursor: undefined, asOf: undefined };
  expect(archiveQuery("")).toMatchObject(none);
  expect(rowsQuery("")).toMatchObject({ ...none, skip: 0 });
  expect(rowsQuery("cursor=x&skip=7").skip).toBe(7);
  expect(parseChangesQuery(new Map([["since", id]]))).toEqual({ since: id, until: undefined, skip: 0 });
  expect(facets()).toMatchObject({ by: ["tier"], limit: 100, asOf: undefined });
});

const changes = (skip: string) =>
  parseChangesQuery(
    new Map([
      ["since", id],
      ["until", id],
      ["skip", skip],
    ]),
  );
test.each<[string, number, (text: string) => number | undefined, number]>([
  ["page", 1, (text) => archiveQuery(`page=${text}`).page, 2_147_483_647],
  ["pageSize", 1, (text) => archiveQuery(`cursor=x&pageSize=${text}`).pageSize, 500],
  ["skip of rows", 0, (text) => rowsQuery(`cursor=x&skip=${text}`).skip, 2_147_483_647],
  ["skip of changes", 0, (text) => changes(text).skip, 2_147_483_647],
  ["limit", 1, (text) => facets(["limit", text]).limit, 1000],
])("the least %s is %i", (_, least, read, most) => {
  expect(read(String(least))).toBe(least);
  expect(() => read(String(least - 1))).toThrow(`must be an integer from ${least} to ${most}.`);
});

test("a day in Delta Sharing is its beginning", () => {
  expect(isoOf("timestamp", "2026-02-01")).toBe("2026-02-01T00:00:00.000Z");
});

const integers = (field: string, ...ranges: [min: number, max: number][]) => [
  { kind: "integer", field, ranges: ranges.map(([min, max]) => ({ min, max })) },
];
const times = (from: string | number, to: string | number) => [
  {
    kind: "time",
    from: typeof from === "string" ? Date.parse(from) : from,
    to: typeof to === "string" ? Date.parse(to) : to,
  },
];
const midnight = "2026-02-01T00:00:00.000Z";
const lastOfDay = "2026-02-01T23:59:59.999Z";
test.each<[given: string, conditions: unknown[], canonical?: string]>([
  ["min_oracle=7", integers("oracle", [7, 100])],
  ["max_oracle=7", integers("oracle", [0, 7])],
  ["min_oracle=7&max_oracle=7", integers("oracle", [7, 7])],
  ["disputed=false", integers("disputed", [0, 0])],
  ["tier=RAW", integers("tier", [1, 1])],
  [
    "tier=MITHRIL,FORGED,RAW,ADAMANTINE,TEMPERED",
    integers("tier", [1, 1], [3, 4], [6, 7]),
    "tier=RAW,FORGED,TEMPERED,MITHRIL,ADAMANTINE",
  ],
  ["from=2026-02-01", times(midnight, Number.POSITIVE_INFINITY), `from=${midnight}`],
  ["to=2026-02-01", times(Number.NEGATIVE_INFINITY, lastOfDay), `to=${lastOfDay}`],
  ["from=2026-02-01&to=2026-02-01", times(midnight, lastOfDay), `from=${midnight}&to=${lastOfDay}`],
  [`from=${midnight}&to=${midnight}`, times(midnight, midnight)],
])("the filter %s selects its ranges and is spelled in one way", (given, conditions, canonical = given) => {
  expect(archiveQuery(given).filter).toEqual({ conditions, words: [], canonical });
});

const wordOf = (text: string, prefix = false) => ({ text, prefix });
test.each([
  ["q=Fed", [wordOf("fed")], "q=fed"],
  ["q=a", [wordOf("a")], "q=a"],
  ["q=ab*", [wordOf("ab", true)], "q=ab*"],
  ["q=fed+FED", [wordOf("fed")], "q=fed"],
  ["q=elections+elect*", [wordOf("elections")], "q=elect*%20elections"],
  ["q=elections+elect", [wordOf("elect"), wordOf("elections")], "q=elect%20elections"],
  ["q=will*+willow*+willo*+wi*", [wordOf("willow", true)], "q=wi*%20will*%20willo*%20willow*"],
  ["q=fed+fed*+federal*", [wordOf("fed"), wordOf("federal", true)], "q=fed%20fed*%20federal*"],
  ["q=8+7+6+5+4+3+2+1", [..."12345678"].map((text) => wordOf(text)), "q=1%202%203%204%205%206%207%208"],
])("the words of %s are those that no other implies", (given, words, canonical) => {
  expect(archiveQuery(given).filter).toEqual({ conditions: [], words, canonical });
});

test("a cursor may lead to the oldest market", () => {
  const { filter } = archiveQuery("tier=RAW&q=fed");
  const after = { resolvedAt: 0, id: "00000000-0000-4000-8000-000000000000" };
  const cursor = { commit: 1, snapshotId: id, ordinal: 0, after, pageSize: 1, filter };
  expect(decodeCursor(encodeCursor(cursor))).toEqual(cursor);
});
