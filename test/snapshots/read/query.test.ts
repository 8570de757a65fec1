import { expect, test } from "vitest";
import { type FacetQuery, parseChangesQuery, parseFacetQuery } from "../../../snapshots/read/query/query.ts";
import { isoOf } from "../../../snapshots/read/sharing/versions.ts";
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

test.each([
  ["2026-02-01", { time: Date.parse("2026-02-01T23:59:59.999Z") }],
  ["2026-02-01T12:00:00.5Z", { time: Date.parse("2026-02-01T12:00:00.500Z") }],
  [id, { snapshotId: id }],
])("asOf=%s is a snapshot, or a time: the end of a day", (text, asOf) => {
  expect(archiveQuery(`asOf=${text}`).asOf).toEqual(asOf);
});

test("a day in Delta Sharing is its beginning", () => {
  expect(isoOf("timestamp", "2026-02-01")).toBe("2026-02-01T00:00:00.000Z");
});
