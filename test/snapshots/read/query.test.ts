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
  expect(facets(["limit", "1"]).limit).toBe(1);
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
