import { buffer } from "node:stream/consumers";
import { crc32, createInflateRaw } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MarketPage } from "../../../../schemas/envelopes.ts";
import { combinations } from "../../../helpers/archive/combinations.ts";
import { testFields } from "../../../helpers/archive/field-check.ts";
import { cursorWalk, idsOf, pageWalk } from "../../../helpers/archive/walk.ts";
import { type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { serveSample } from "../../../helpers/http/archive-served.ts";

const served = serveSample({ markets: 300 });

test.for([
  ...[7, 499, 500].map((pageSize) => ({ name: "cursor", walk: cursorWalk, pageSize })),
  ...[30, 100, 500].map((pageSize) => ({ name: "page", walk: pageWalk, pageSize })),
])("a $name walk at pageSize $pageSize shows every market once, in order", async ({ walk, pageSize }) => {
  const expected = (await served.expected()).map(({ id }) => id);
  const total = expected.length;
  let [shown, number] = [0, 0];
  for await (const page of walk(served.proxy, { pageSize })) {
    number += 1;
    const ids = expected.slice(shown, shown + pageSize);
    const { markets: _, nextCursor, timestamp: __, ...numbers } = MarketPage.parse(page);
    const told = { version: "bri-pm-v1", tier: "enterprise", count: ids.length, total };
    expect(numbers).toEqual({ ...told, page: number, pageSize });
    expect(idsOf(page).join()).toBe(ids.join());
    shown += ids.length;
    expect(nextCursor === null).toBe(shown === total);
  }
  expect(shown).toBe(total);
});

test("a walk with a cache that holds no page at all, and several requests at once", async () => {
  const proxy = await startArchiveProxy(served.storage, { cacheBytes: 1 });
  const queries = [1, 2, 3, 1, 2, 3].map((page) => ({ page, pageSize: 400 }));
  const pages = await Promise.all(queries.map((query) => proxy.page(query)));
  const ids = served.markets.map(({ id }) => id);
  pages.forEach((page, place) => {
    const start = (queries[place]!.page - 1) * 400;
    expect(idsOf(page)).toEqual(ids.slice(start, start + 400));
  });
  await proxy.stop();
});

describe("records", () => {
  testFields(served);
});

test("a page has the fields of INTERFACE 2.7 in its order, and 100 markets where nothing is asked", async () => {
  const page = await served.proxy.page({});
  expect(page).toMatchObject({ page: 1, pageSize: 100, count: 100 });
  const fields = "version tier count total page pageSize nextCursor timestamp markets".split(" ");
  expect([Object.keys(page), Object.keys(MarketPage.shape)]).toEqual([fields, fields]);
});

test("gzip is one member whose text is the identity body, for any filter, page and size", async () => {
  const gzipped = async (query: Query) => {
    const answer = await served.proxy.get(query, { "accept-encoding": "gzip" });
    expect(answer.headers["content-encoding"]).toBe("gzip");
    return answer;
  };
  await fc.assert(
    fc.asyncProperty(combinations(served.markets), async ({ filters, page, pageSize }) => {
      const query = { ...filters, page, pageSize };
      const { body, text } = await gzipped(query);
      expect(text).toBe((await served.proxy.get(query)).text);
      // The same again, as it was kept.
      expect((await gzipped(query)).body.equals(body)).toBe(true);
      // Some clients read only the first gzip member, so there must be exactly one.
      const inflate = createInflateRaw();
      inflate.end(body.subarray(10, -8));
      const inflated = await buffer(inflate);
      expect(inflate.bytesWritten).toBe(body.length - 18);
      expect(body.readUInt32LE(body.length - 8)).toBe(crc32(inflated));
      expect(body.readUInt32LE(body.length - 4)).toBe(inflated.length);
    }),
    {
      numRuns: 60,
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
