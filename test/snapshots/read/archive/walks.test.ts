import { execFile } from "node:child_process";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { crc32, createInflateRaw } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MarketPage } from "../../../../schemas/envelopes.ts";
import { combinations } from "../../../helpers/archive/combinations.ts";
import { testFields } from "../../../helpers/archive/field-check.ts";
import { cursorWalk, idsOf, pageWalk } from "../../../helpers/archive/walk.ts";
import { type Query, search, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { serveSample } from "../../../helpers/http/archive-served.ts";
import { findProgram } from "../../../helpers/servers/programs.ts";

const served = serveSample({ markets: 300 });

describe("walks", () => {
  const cases = [
    ...[7, 499, 500].map((pageSize) => ({ name: "cursor", walk: cursorWalk, pageSize })),
    ...[30, 100, 500].map((pageSize) => ({ name: "page", walk: pageWalk, pageSize })),
  ];

  test.for(cases)("a $name walk at pageSize $pageSize shows every market once, in order", async (how) => {
    const { pageSize } = how;
    const expected = (await served.expected()).map(({ id }) => id);
    const total = expected.length;
    let shown = 0;
    let number = 0;
    for await (const page of how.walk(served.proxy, { pageSize })) {
      number += 1;
      const ids = expected.slice(shown, shown + pageSize);
      const { markets: _, nextCursor, timestamp: __, ...numbers } = MarketPage.parse(page);
      expect(numbers).toEqual({
        version: "bri-pm-v1",
        tier: "enterprise",
        count: ids.length,
        total,
        page: number,
        pageSize,
      });
      expect(idsOf(page).join()).toBe(ids.join());
      shown += ids.length;
      expect(nextCursor === null).toBe(shown === total);
    }
    expect(shown).toBe(total);
  });
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

describe("a page", () => {
  test("has the fields of INTERFACE 2.7 in its order, and compact JSON", async () => {
    const { text } = await served.proxy.get({ pageSize: 3, disputed: "true" });
    const fields = Object.keys(MarketPage.shape);
    expect(fields).toEqual("version tier count total page pageSize nextCursor timestamp markets".split(" "));
    expect(Object.keys(JSON.parse(text))).toEqual(fields);
    expect(text.startsWith('{"version":"bri-pm-v1","tier":"enterprise","count":3,"total":')).toBe(true);
  });

  test("has defaults: the first page, of 100 markets", async () => {
    expect(await served.proxy.page({})).toMatchObject({ page: 1, pageSize: 100, count: 100 });
  });
});

describe("codings", () => {
  const gzipped = async (query: Query) => {
    const answer = await served.proxy.get(query, { "accept-encoding": "gzip" });
    expect(answer.headers["content-encoding"]).toBe("gzip");
    return answer;
  };

  test("gzip is one member whose text is the identity body, for any filter, page and size", async () => {
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
      { numRuns: 60 },
    );
  });

  const run = promisify(execFile);
  /** Reads an address as its own users do, and returns the text it makes of the answer. */
  type Decoder = (url: string, headers: Record<string, string>) => Promise<string>;
  const decoders: [string, installed: unknown, Decoder][] = [
    [
      "curl",
      findProgram("curl"),
      async (url, headers) => {
        const given = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
        return (await run("curl", ["-sS", "--fail", "--compressed", ...given, url], { maxBuffer: 2 ** 26 }))
          .stdout;
      },
    ],
    ["Node's fetch", true, async (url, headers) => (await fetch(url, { headers })).text()],
    [
      "Python's gzip",
      findProgram("python3"),
      async (url, headers) => {
        const program = `import gzip, json, sys, urllib.request
url, headers = json.loads(sys.argv[1])
request = urllib.request.Request(url, headers={**headers, "Accept-Encoding": "gzip"})
sys.stdout.buffer.write(gzip.decompress(urllib.request.urlopen(request).read()))`;
        const asked = JSON.stringify([url, headers]);
        return (await run("python3", ["-c", program, asked], { maxBuffer: 2 ** 26 })).stdout;
      },
    ],
  ];

  // That Chromium reads them is seen by the tests of the site.
  test.each(decoders.filter(([, installed]) => installed))(
    "gzip is read by %s, put together and kept",
    async (_, __, decode) => {
      // Whole runs, cut ones, single markets of many runs, and nothing at all.
      for (const query of [
        { pageSize: 160 },
        { pageSize: 7, page: 3 },
        { pageSize: 160, disputed: "true" },
        { page: 1000 },
      ]) {
        const url = `${served.proxy.address}?${search(query)}`;
        const { text } = await served.proxy.get(query);
        for (let n = 0; n < 2; n += 1) expect(await decode(url, served.proxy.headers)).toBe(text);
      }
    },
  );
});
