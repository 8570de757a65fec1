import { expect, test } from "vitest";
import { decodeCursor, encodeCursor } from "../../../snapshots/read/archive/paging.ts";
import { isoOf } from "../../../snapshots/read/sharing/sharing.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";

// What is refused is in test/proxy/corpus.txt, and what filters select in test/snapshots/read/archive/filters.test.ts.

test("a day in Delta Sharing is its beginning", () => {
  expect(isoOf("timestamp", "2026-02-01")).toBe("2026-02-01T00:00:00.000Z");
});

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
