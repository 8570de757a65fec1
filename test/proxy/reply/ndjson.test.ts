import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { type Combination, combinations } from "../../helpers/archive/combinations.ts";
import { plainFilter } from "../../helpers/archive/plain-filter.ts";
import { type Query, search, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { serveSample } from "../../helpers/http/archive-served.ts";
import { askRows, type RowsReader, wantsRows } from "../../helpers/http/ndjson.ts";
import { type Answer, outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";

const served = serveSample({ markets: 700, seed: 5 });

const get = (query: Query = {}, headers = {}) => served.proxy.get(query, { ...wantsRows, ...headers });
/** Lines of a body that consists of nothing else. */
function linesOf({ text }: Answer): string[] {
  const lines = text.split("\n");
  expect(lines.pop()).toBe("");
  return lines;
}
/** The records of lines are these, in this order; a long difference is not shown. */
function expectRows(lines: readonly string[], records: readonly object[]): void {
  const differing = lines.findIndex(
    (line, place) => JSON.stringify(JSON.parse(line)) !== JSON.stringify(records[place]),
  );
  expect([lines.length, differing]).toEqual([records.length, -1]);
}
/** Whoever has just gone away holds the owner's place until that is noticed. */
async function open(query: Query): Promise<RowsReader> {
  const reader = await askRows(`${served.proxy.address}?${search(query)}`, served.proxy.headers);
  if (reader.status !== 429) return reader;
  await reader.ending();
  return open(query);
}

/** Filters of which every one finds something, and one that finds nothing. */
const examples = [
  ...[{}, { min_composite: 700 }, { category: "CRYPTO", max_oracle: 80 }, { outcome: "No" }],
  ...[
    { disputed: "true", from: "2024-01-01" },
    { tier: "RAW", max_composite: 300, min_design: 100 },
  ],
].map((filters: Query): [Combination] => [{ filters, page: 1, pageSize: 1 }]);

test("all rows in one answer are the sources' in the interface's words, as many as it and pages say, in both codings", async () => {
  const sources = await served.expected();
  const filters = combinations(served.markets);
  await fc.assert(
    fc.asyncProperty(filters, async ({ filters: query }) => {
      const [plain, zipped] = [await get(query), await get(query, { "accept-encoding": "gzip" })];
      const expected = plainFilter(sources, query);
      expectRows(linesOf(plain), expected);
      expect(zipped.text === plain.text).toBe(true);
      const codings = [plain, zipped].map(({ headers }) => headers["content-encoding"]);
      expect(codings).toEqual([undefined, "gzip"]);
      const { total } = await served.proxy.page({ ...query, pageSize: 1 });
      const { "x-count": count, "x-total-count": all, "content-length": length } = plain.headers;
      expect([count, all, length]).toEqual([String(total), String(total), undefined]);
      expect(expected).toHaveLength(total);
    }),
    { numRuns: 10, examples },
  );
});

describe("an answer that broke off", () => {
  async function receive(query: Query, count: number): Promise<{ lines: string[]; cursor: string }> {
    const reader = await open(query);
    await reader.until(count);
    reader.leave();
    return { lines: reader.lines, cursor: String(reader.headers["x-cursor"]) };
  }

  test("is gone on with after its last line, wherever that was, also from a cursor of pages", async () => {
    const cases = fc.record({
      query: fc.constantFrom<Query>({}, { min_composite: 500 }, { category: "sports" }),
      cuts: fc.array(fc.nat(500), { minLength: 1, maxLength: 4 }),
      renewed: fc.boolean(),
      paged: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ query, cuts, renewed, paged }) => {
        const expected = plainFilter(served.markets, query);
        const { nextCursor, markets } = await served.proxy.page({ ...query, pageSize: 13 });
        const before = paged ? markets.length : 0;
        // Lines are counted from the first cursor there is, or from that of the newest answer.
        let [start, behind]: [Query, number] = [paged ? { cursor: nextCursor! } : query, 0];
        const from = () => ({ ...start, ...(behind > 0 && { skip: behind }) });
        const lines: string[] = [];
        for (const cut of cuts) {
          const part = await receive(from(), Math.min(cut, expected.length - before - lines.length));
          lines.push(...part.lines);
          behind += part.lines.length;
          if (renewed || start.cursor === undefined)
            [start, behind] = [{ cursor: part.cursor }, part.lines.length];
        }
        const rest = await open(from());
        const { "x-count": count, "x-total-count": total } = rest.headers;
        lines.push(...(await rest.toEnd()));
        expectRows(lines, expected.slice(before));
        expect([count, total]).toEqual([String(rest.lines.length), String(expected.length)]);
      }),
      { numRuns: 5, examples: [[{ query: {}, cuts: [1, 5], renewed: true, paged: false }]] },
    );
  });

  test("is gone on with in its snapshot, as long as that is kept", async () => {
    const before = served.proxy.catalog.current()!.commit;
    const { lines, cursor } = await receive({}, 321);
    await publishRecords(served.storage, recordsOf(0, 80));
    await served.proxy.refresh();
    const rest = await open({ cursor, skip: lines.length });
    expectRows([...lines, ...(await rest.toEnd())], served.markets);
    expect(rest.headers["x-snapshot-id"]).toBe(before.snapshotId);
    const fresh = await get();
    expect(linesOf(fresh)).toHaveLength(80);
    expect(fresh.headers["x-snapshot-id"]).toBe(served.proxy.catalog.current()!.commit.snapshotId);
    await served.storage.delete(layout.manifest(before.manifest.hash));
    const later = await startArchiveProxy(served.storage);
    const gone = await later.get({ cursor, skip: 1 }, wantsRows);
    expect(outcome(gone)).toBe("410 CURSOR_EXPIRED");
    // Nobody knows any more which markets those lines were.
    expect(problemOf(gone).resumeCursor).toBeUndefined();
    expect(problemOf(await later.get({ cursor }, wantsRows)).resumeCursor).toMatch(/./);
    await later.stop();
  });
});
