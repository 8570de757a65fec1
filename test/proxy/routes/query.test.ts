import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { searchBounds, timePattern } from "../../../schemas/filters.ts";
import { archiveParameters, asOfParameter } from "../../../schemas/query.ts";
import { forgeTiers } from "../../../schemas/scales.ts";
import { maxLabelBytes } from "../../../schemas/shapes.ts";
import { timeOf } from "../../../snapshots/read/query/parameters.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, problemOf, until } from "../../helpers/http/proxy-client.ts";
import { market, marketsOf, publishRecords } from "../../helpers/publish/records.ts";

const kibibyte = 1024;
/** A label that takes as many bytes as one may, and most in a cursor. */
const longest = "%".repeat(maxLabelBytes);
const tier = forgeTiers[0];
/** A word that takes four bytes a character. */
const longestWord = "\u{10428}".repeat(searchBounds.characters);
/** Every filter that can be given at once finds these two, and none can be spelled longer. */
const found = [40, 41].map((index) => {
  const { dimensions, ...rest } = market(index);
  return {
    ...rest,
    category: longest,
    resolvedOutcome: longest,
    formulaVersion: longest,
    weightVersion: longest,
    question: longestWord,
    tier,
    disputed: false,
    composite: 1000,
    resolvedAt: "2025-12-31T23:59:59.999Z",
    dimensions: dimensions.map((dimension) => ({ ...dimension, score: 100 })),
  };
});

let proxy: TestProxy;
let aegis: string;
beforeAll(async () => {
  proxy = await startTestProxy({ empty: true });
  await publishRecords(proxy.storage, [...marketsOf(0, 40), ...found]);
  await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
  aegis = await proxy.issue({ quota: 1_000_000 });
});
afterAll(() => proxy.stop());

const ask = (query: string) => proxy.get(`/api/v1/markets/historical?${query}`, { headers: bearer(aegis) });

describe("a query that is not exactly right is refused, naming the parameter", () => {
  const many = Array.from({ length: 1001 }, (_, index) => `p${index}=1`).join("&");
  test.each([
    ["tier=GOLD", "tier", /RAW, CAST, FORGED/],
    ["tier=raw", "tier", /RAW/],
    ["disputed=yes", "disputed", /false, true/],
    ["disputed=TRUE", "disputed", /false, true/],
    ["category=a&category=a", "category", /more than once; give it once\./],
    ["category=", "category", /empty/],
    ["category", "category", /empty/],
    ["tier=mithril", "tier", /ADAMANTINE, not "mithril"\. Did you mean MITHRIL\?$/],
    ["tier=FROGED", "tier", /Did you mean FORGED\?$/],
    ["tier=GOLD", "tier", /ADAMANTINE, not "GOLD"\.$/],
    ["tier=RAW,mithril", "tier", /ADAMANTINE, not "mithril"\. Did you mean MITHRIL\?$/],
    ["limit=5", "limit", /not a parameter here\. pageSize sets how many come\. Known/],
    ["per_page=5", "per_page", /pageSize sets/],
    ["offset=100", "offset", /page chooses a page, and cursor walks on/],
    ["format=csv", "format", /here\. The header Accept chooses .*application\/x-ndjson or text\/csv\. Known/],
    ["API-key=x", "API-key", /here\. A key goes into a header, Authorization: Bearer KEY/],
    ["tier=RAW,CAST,RAW", "tier", /names RAW more than once/],
    ["tier=RAW,", "tier", /must be one of RAW/],
    ["tier=,", "tier", /must be one of RAW/],
    ["tier=RAW&tier=CAST", "tier", /more than once; give it once, its values separated by commas\./],
    ["tier=RAW,%20CAST", "tier", /Did you mean CAST\?$/],
    ["q=%20", "q", /has no word/],
    ["q=*", "q", /has no word/],
    ["q=a*", "q", /at least 2 characters before a \*, not "a" alone/],
    ["q=1+2+3+4+5+6+7+8+9", "q", /at most 8 words/],
    [`q=${"a".repeat(201)}`, "q", /at most 200 characters/],
    [`q=${"%EF%B7%BA".repeat(12)}`, "q", /ligatures/],
    ["disputed=true,false", "disputed", /must be one of false, true/],
    ["formula-version=1", "formula-version", /Did you mean formula_version\?/],
    ["disputed=True", "disputed", /Did you mean true\?$/],
    ["teir=RAW", "teir", /Did you mean tier\?/],
    ["fromm=2026-01-01", "fromm", /Did you mean from\?/],
    ["categorie=x", "categorie", /Did you mean category/],
    ["Category=x", "Category", /Did you mean category/],
    ["pagesize=5", "pagesize", /Did you mean pageSize/],
    ["min_oracel=5", "min_oracel", /Did you mean min_oracle/],
    ["nothinglikeit=5", "nothinglikeit", /is not a parameter here\. Known/],
    ["min_composite=299", "min_composite", /300 to 1000/],
    ["max_composite=1001", "max_composite", /300 to 1000/],
    ["min_oracle=101", "min_oracle", /0 to 100/],
    ["min_oracle=-1", "min_oracle", /0 to 100/],
    ["min_oracle=1e1", "min_oracle", /0 to 100/],
    ["min_oracle=0x10", "min_oracle", /0 to 100/],
    ["min_oracle=05", "min_oracle", /0 to 100/],
    ["min_oracle=5.0", "min_oracle", /0 to 100/],
    ["min_oracle=%205", "min_oracle", /0 to 100/],
    ["min_oracle=+5", "min_oracle", /0 to 100/],
    ["min_oracle=%D9%A5", "min_oracle", /0 to 100/],
    ["min_oracle=60&max_oracle=50", "min_oracle", /above max_oracle/],
    ["page=0", "page", /1 to 2147483647/],
    ["page=-1", "page", /1 to/],
    ["page=2147483648", "page", /1 to/],
    ["page=9007199254740993", "page", /1 to/],
    ["pageSize=0", "pageSize", /1 to 500/],
    ["pageSize=501", "pageSize", /1 to 500/],
    ["page=1&cursor=x", "page", /exclude/],
    ["from=2026-02-30", "from", /real day/],
    ["from=2026-1-1", "from", /real day/],
    ["from=yesterday", "from", /real day/],
    ["to=2026-01-01T00:00:00", "to", /real day/],
    ["to=2026-01-01T24:00:00Z", "to", /real day/],
    ["from=2026-02-01&to=2026-01-01", "from", /later than to/],
    ["category=%zz", "category", /percent-encoded/],
    ["category=%ff", "category", /percent-encoded/],
    ["%ff=1", "query", /percent-encoded/],
    ["a[b]=1", "a[b]", /not a parameter/],
    ["category[]=x", "category[]", /not a parameter/],
    ["__proto__=1", "__proto__", /not a parameter/],
    ["constructor=1", "constructor", /not a parameter/],
    ["category=x;tier=RAW", undefined, /./],
    ["&category=x", "", /not a parameter/],
    ["category=x&", "", /not a parameter/],
    ["category=x&&tier=RAW", "", /not a parameter/],
    ["=x", "", /not a parameter/],
    [many, "p0", /not a parameter/],
  ] as const)("?%s", async (query, parameter, detail) => {
    const answer = await ask(query);
    if (parameter === undefined) {
      // A semicolon separates nothing: it is part of a category that never occurs.
      expect(answer.json()).toMatchObject({ total: 0 });
      return;
    }
    const problem = problemOf(answer);
    expect(problem).toMatchObject({ status: 400, code: "INVALID_PARAMETER", parameter });
    expect(problem.detail).toMatch(detail);
    expect(problem.detail.length).toBeLessThan(2000);
    expect(answer.headers["x-ratelimit-remaining"]).toBeDefined();
  });

  test("times are of days that there are, in the schema as in the service", () => {
    const two = (number: number) => String(number).padStart(2, "0");
    const wrong: string[] = [];
    for (const year of [1900, 2000, 2023, 2024, 2100])
      for (let month = 0; month <= 13; month += 1)
        for (let day = 0; day <= 32; day += 1)
          for (const clock of ["", "T23:59:59.9-23:59"]) {
            const date = new Date(Date.UTC(year, month - 1, day));
            const real = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
            const text = `${year}-${two(month)}-${two(day)}${clock}`;
            const { success } = asOfParameter.schema.safeParse(text);
            const taken = timePattern.test(text);
            if (success !== real || taken !== real) wrong.push(text);
            if (real && !clock) expect(timeOf("from", text, 0)).toBe(date.getTime());
          }
    expect(wrong).toEqual([]);
  });

  test.each([
    ["markets/facets?by=month,week", "by", /^by must be one of category, .*, month, not "week"\.$/],
    ["markets/facets?by=tier&pageSize=5", "pageSize", /not a parameter here\. limit sets how many come/],
    ["scores?limit=5", "limit", /not a parameter here\. Known: asOf\.$/],
    ["status?api_key=prs_live_secret", "api_key", /takes none\. A key goes into a header/],
  ])("%s", async (target, parameter, detail) => {
    const problem = problemOf(await proxy.get(`/api/v1/${target}`, { headers: bearer(aegis) }));
    expect(problem).toMatchObject({ code: "INVALID_PARAMETER", parameter });
    expect(problem.detail).toMatch(detail);
  });
});

describe("the longest filters that are accepted", () => {
  const values: Record<string, string> = {
    category: longest,
    outcome: longest,
    formula_version: longest,
    weight_version: longest,
    tier: forgeTiers.join(","),
    disputed: "false",
    q: longestWord,
  };
  const longestOf = (name: string) => {
    if (name === "from" || name === "to") return "2025-12-31T23:59:59.999+00:00";
    return values[name] ?? (name.endsWith("_composite") ? "1000" : "100");
  };
  const filters = archiveParameters
    .map(({ name }) => name)
    .filter((name) => !["page", "pageSize", "cursor", "skip"].includes(name))
    .map((name): [string, string] => [name, longestOf(name)]);
  const target = (extra: Record<string, string> = {}) =>
    `/api/v1/markets/historical?${new URLSearchParams([...filters, ...Object.entries(extra)])}`;
  /** An answer's head, byte for byte. */
  const headOf = async (method: string, path: string, fields: Record<string, string> = {}) => {
    const all = { Host: "x", Connection: "close", "x-api-key": aegis, ...fields };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    const [head = ""] = (await proxy.raw(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`)).split(
      "\r\n\r\n",
    );
    return head;
  };

  test("make no head of an answer longer than 8 KiB, and cursors that go on", async () => {
    const first = await proxy.get(target({ pageSize: "1" }), { headers: bearer(aegis) });
    const { total, nextCursor } = first.json();
    expect(total).toBe(2);
    // With skip the cursor of rows names a market, too.
    const rest = target({ cursor: nextCursor, skip: "0" });
    for (const [method, path, fields] of [
      ["GET", target({ pageSize: "1" }), {}],
      ["GET", rest, wantsRows],
      ["HEAD", rest, wantsRows],
      ["GET", rest, { ...wantsRows, "If-None-Match": "*" }],
    ] as const) {
      const head = await headOf(method, path, fields);
      expect(head).toMatch(/^HTTP\/1\.1 (200|304) /);
      expect(head.length).toBeLessThan(8 * kibibyte);
    }
    const cursor = /^X-Cursor: (.*)$/m.exec(await headOf("HEAD", rest, wantsRows))?.[1]?.trim() ?? "";
    expect(cursor.length).toBeGreaterThan(4 * 4 * maxLabelBytes);
    for (const path of [target({ cursor }), `/api/v1/markets/historical?cursor=${cursor}`])
      expect((await proxy.get(path, { headers: bearer(aegis) })).json()).toMatchObject({
        total: 2,
        count: 1,
      });
  });

  test.each(["category", "outcome", "formula_version", "weight_version"])(
    "have a %s of no byte more",
    async (name) => {
      for (const value of ["x".repeat(maxLabelBytes + 1), `${longest}x`, "x".repeat(14_000)]) {
        const refused = await ask(`${name}=${encodeURIComponent(value)}`);
        expect(problemOf(refused)).toMatchObject({ status: 400, code: "INVALID_PARAMETER", parameter: name });
        expect(problemOf(refused).detail).toContain("at most 256 bytes in UTF-8");
        const carried = [1, "0".repeat(64), 42, 0, "", 1, String(new URLSearchParams({ [name]: value }))];
        const cursor = Buffer.from(JSON.stringify(carried)).toString("base64url");
        expect(await headOf("GET", `/api/v1/markets/historical?cursor=${cursor}`)).toMatch(
          /^HTTP\/1\.1 4(00|31) /,
        );
      }
    },
  );
});
