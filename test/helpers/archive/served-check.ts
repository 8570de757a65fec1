import { buffer } from "node:stream/consumers";
import { crc32, createInflateRaw } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { MarketPage } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { ArchiveProxy, Query } from "../http/archive-proxy.ts";
import type { ServedArchive } from "../http/archive-served.ts";
import { type Combination, combinations } from "./combinations.ts";
import { plainFilter } from "./plain-filter.ts";
import { sourceScores } from "./source-rows.ts";
import { cursorWalk, idsOf } from "./walk.ts";

/** Defines the tests that what is served equals the sources, row by row and field by field. */
export function testFields(served: ServedArchive): void {
  test("every market equals its source row in every field, and there are no others", async () => {
    const expected = await served.expected();
    expect(served.markets.length).toBe(expected.length);
    // As text: that compares the order of members too.
    served.markets.forEach((market, place) => {
      const [shown, source] = [JSON.stringify(market), JSON.stringify(expected[place])];
      if (shown !== source) expect(market).toEqual(expected[place]);
      expect(shown).toBe(source);
    });
  });

  test("every score record equals the newest source row of its slug in every field", async () => {
    const expected = await sourceScores(served.directory);
    const { records } = served.proxy.catalog.current()!.manifest.scores;
    expect(Object.keys(records).sort()).toEqual([...expected.keys()].sort());
    for (const [slug, source] of expected) {
      const stored = await served.storage.get(layout.stableScore(slug));
      expect(JSON.stringify(JSON.parse(String(stored)))).toBe(JSON.stringify(source));
    }
  });
}

/** Defines the test that `runs` random combinations of filters agree with the interface's words over the sources. */
export function testFilters(served: ServedArchive, runs: number): void {
  test(`${runs} combinations agree with the interface's words, by page and by cursor`, async () => {
    const sources = await served.expected();
    await fc.assert(
      fc.asyncProperty(combinations(served.markets), (combination) =>
        checkCombination(served.proxy, sources, combination),
      ),
      {
        numRuns: runs,
        // Whole runs, cut ones, single markets of many runs, and nothing at all.
        examples: [
          [{ filters: {}, page: 1, pageSize: 160 }],
          [{ filters: {}, page: 3, pageSize: 7 }],
          [{ filters: { disputed: "true" }, page: 1, pageSize: 160 }],
          [{ filters: {}, page: 1000, pageSize: 100 }],
        ],
      },
    );
  });
}

/** Up to this many pages of a combination are walked from the first. */
const walkedPages = 4;

/** Compares one combination. */
async function checkCombination(
  proxy: ArchiveProxy,
  sources: readonly HistoricalMarket[],
  { filters, pageSize, page }: Combination,
): Promise<void> {
  const ids = plainFilter(sources, filters).map((market) => market.id);
  const walked: MarketPage[] = [];
  for await (const found of cursorWalk(proxy, { ...filters, pageSize })) {
    walked.push(found);
    expectPage(found, ids, walked.length, pageSize);
    if (walked.length === walkedPages) break;
  }
  const last = Math.max(1, Math.ceil(ids.length / pageSize));
  for (const number of new Set([page, last])) {
    const byNumber = await proxy.page({ ...filters, pageSize, page: number });
    expectPage(byNumber, ids, number, pageSize);
    await expectGzip(proxy, { ...filters, pageSize, page: number });
    const byCursor = walked[number - 1];
    if (byCursor) expect(JSON.stringify(byNumber)).toBe(JSON.stringify(byCursor));
    else if (byNumber.nextCursor !== null)
      expectPage(await proxy.page({ cursor: byNumber.nextCursor }), ids, number + 1, pageSize);
  }
}

/** A page holds its part of `ids`, and its envelope says so. */
function expectPage(page: MarketPage, ids: readonly string[], number: number, pageSize: number): void {
  const expected = ids.slice((number - 1) * pageSize, number * pageSize);
  expectSame(idsOf(page), expected);
  expect(page).toMatchObject({ count: expected.length, total: ids.length, page: number, pageSize });
  expect(page.nextCursor !== null).toBe(number * pageSize < ids.length);
}

/** In gzip a page is one member with the text that it has without, also when it was kept. */
async function expectGzip(proxy: ArchiveProxy, query: Query): Promise<void> {
  const { text } = await proxy.get(query);
  for (let time = 0; time < 2; time += 1) {
    const { body, headers, text: unpacked } = await proxy.get(query, { "accept-encoding": "gzip" });
    expect(headers["content-encoding"]).toBe("gzip");
    expect(unpacked === text).toBe(true);
    // Some clients read only the first gzip member, so there must be exactly one.
    const inflate = createInflateRaw();
    inflate.end(body.subarray(10, -8));
    const inflated = await buffer(inflate);
    expect(inflate.bytesWritten).toBe(body.length - 18);
    expect(body.readUInt32LE(body.length - 8)).toBe(crc32(inflated));
    expect(body.readUInt32LE(body.length - 4)).toBe(inflated.length);
  }
}

// Far quicker than toEqual, which looks at every character of every id.
function expectSame(ids: readonly string[], expected: readonly string[]): void {
  expect(ids.join("\n")).toBe(expected.join("\n"));
}
