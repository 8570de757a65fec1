import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canonicalTarget } from "../../../proxy/routes/checks.ts";
import { type Endpoint, endpoints } from "../../../schemas/endpoints.ts";
import { addressOf } from "../../helpers/http/addresses.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { problemOf } from "../../helpers/http/proxy-client.ts";

let proxy: TestProxy;
beforeAll(async () => {
  proxy = await startTestProxy();
});
afterAll(() => proxy.stop());

const id = "00000000-0000-4000-8000-000000000007";
const archive = "/api/v1/markets/historical";

/** Other spellings of the archive's path; some server, proxy or framework takes each for the path itself. */
const variants = [
  ...["/api/v1//markets/historical", "//api/v1/markets/historical", "/api/v1/markets//historical"],
  ...["/api/v1/markets/historical/", "/api/v1/markets/historical//", "/api/v1/markets/./historical"],
  ...["/./api/v1/markets/historical", "/api/v1/x/../markets/historical"],
  ...["/api/v1/scores/../markets/historical", "/api/v1/scores/%2e%2e/markets/historical"],
  ...["/api/v1/markets/historical/.", "/api/v1/markets/historical/x/..", "/api\\v1\\markets\\historical"],
  ...["/api/v1/markets\\historical", "/api/v1/%6darkets/historical", "/api/v1/markets/%68istorical"],
  ...["/api/v1/markets%2fhistorical", "/api/v1/markets%2Fhistorical", "/api/v1/markets%5chistorical"],
  ...["/%61pi/v1/markets/historical", "/api/v1/markets/historical%20", "/api/v1/markets/historical%00"],
  ...["/api/v1/markets/historical%3fpage=1", "/api/v1/markets/historical;v=1"],
  ...["/api/v1/markets/historical.json", "/api/v1/markets/historical#x", "/API/v1/markets/historical"],
  ...["/api/v1/Markets/Historical", "/api/v1/markets/HISTORICAL", "/api/v1/m\u00e4rkets/historical"],
  ...["/api/v1/markets/historical\u00ad", "/api/V1/markets/historical", "api/v1/markets/historical"],
  ...["http://proxy.test/api/v1/markets/historical", "http://proxy.test//api/v1/markets/historical"],
  ...["https://proxy.test/api/v1/markets/historical", "//proxy.test/api/v1/markets/historical"],
  ...["/private/pages/", "/public/objects/", "/api/v1/scores/batch/../../markets/historical", "*"],
];

describe("without a key", () => {
  test.each(variants)("%s reaches nothing", async (target) => {
    for (const method of ["GET", "HEAD", "POST", "OPTIONS"]) {
      const answer = await proxy.raw(
        `${method} ${target} HTTP/1.1\r\nHost: proxy.test\r\nConnection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 (404|400) /);
      expect(answer).not.toMatch(/00000000-0000-4000|Access-Control-Allow-Methods/i);
    }
  });

  test("the path itself asks for a key", async () => {
    const answer = await proxy.raw(
      `GET ${archive} HTTP/1.1\r\nHost: proxy.test\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toContain("API_KEY_REQUIRED");
  });

  test.each([
    "/docs",
    "/healthz/",
    "/api/v1/scores/",
    "/api/v1/scores/aave/?x=1",
    "/api/v1/markets/historical/",
  ])("%s is said to differ in a slash only", async (path) => {
    expect(problemOf(await proxy.get(path))).toMatchObject({
      code: "NOT_FOUND",
      detail: expect.stringMatching(/byte\. One differs from this in a slash/),
    });
    expect(problemOf(await proxy.get(`/none${path}`)).detail).toMatch(/byte\.$/);
  });

  test("headers that name another path or method change nothing", async () => {
    const answer = await proxy.raw(
      "GET /api/v1/scores HTTP/1.1\r\nHost: proxy.test\r\nConnection: close\r\n" +
        `X-Original-URL: ${archive}\r\nX-Rewrite-URL: ${archive}\r\nX-Forwarded-Host: evil.test\r\n` +
        `X-HTTP-Method-Override: POST\r\nForwarded: host=evil.test;path=${archive}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toContain('"slug":"aave"');
    expect(answer).not.toMatch(/evil|00000000-0000-4000/);
  });
});

describe("canonicalTarget(raw)", () => {
  const nowhere = /^(\/api\/v1)?\/-(\/slash)?$/;

  test("leaves the path of every row of the endpoint table as it is", () => {
    for (const endpoint of Object.values<Endpoint>(endpoints)) {
      const target = addressOf(endpoint, "curve.fi");
      for (const raw of [target, `${target}?`, `${target}?a=b?c&%zz`]) expect(canonicalTarget(raw)).toBe(raw);
    }
  });

  const snapshot = "0a".repeat(32);
  const name = "markets-0001.parquet";
  const pathsOf: [what: string, of: string, taken: string[], others: string[]][] = [
    [
      "any single segment for a slug, but no dot segment and no other spelling",
      "/api/v1/scores/",
      ["AAVE", "a;b", "a+b", "...", "..a", "~", "é", "__proto__", ":slug", "batch"],
      ["", ".", "..", "%61", "a%", "a\\b", "a#b", "a/b", "a/"],
    ],
    [
      "nothing but a UUID in lower case for the id of a market",
      "/api/v1/markets/",
      [id, `${id}/proof`],
      [
        ...["x", "historica", "proof", id.slice(1), `${id}0`, id.replace("0", "A"), id.replaceAll("-", "")],
        ...[`${id}/`, `${id}/proofs`, `{${id}}`, `%30${id.slice(1)}`],
      ],
    ],
    [
      "nothing but a snapshot and a name for a file of an export",
      "/api/v1/markets/exports/",
      [`${snapshot}/${name}`, `${snapshot}/markets-12345.parquet`],
      [
        ...["", snapshot, `${snapshot}/`, name, `${snapshot}/${name}/`, `${snapshot.toUpperCase()}/${name}`],
        ...[`${snapshot}0/${name}`, `${snapshot}/../${name}`, `${snapshot}/${name}x`],
        ...["markets-1.parquet", "markets-0001xparquet", "x.parquet", `%6d${name.slice(1)}`].map(
          (other) => `${snapshot}/${other}`,
        ),
      ],
    ],
  ];
  test.each(pathsOf)("takes %s", (_what, of, taken, others) => {
    for (const each of taken) expect(canonicalTarget(of + each)).toBe(of + each);
    for (const each of others) expect(canonicalTarget(of + each), each).toMatch(nowhere);
  });

  test("never throws, and what it leaves is spelled as the table spells it", () => {
    const exported = ["exports", "0".repeat(64), "markets-0001.parquet"];
    const pieces = [
      ...exported,
      ...["api", "v1", "scores", "markets", "historical", "batch", "status", "healthz", "aave"],
    ];
    const odd = [
      id,
      id.toUpperCase(),
      ...["proof", "/", "//", "%2f", "\\", ".", "..", "?", "#", ";", "%00", "\u0000", ":slug"],
    ];
    const target = fc.array(fc.oneof(fc.constantFrom(...pieces, ...odd, "/"), fc.string({ maxLength: 3 })));
    const written = Object.values<Endpoint>(endpoints).map(({ path, files }) => {
      const file = (files ?? []).map((name) => name.replaceAll(".", "\\.")).join("|");
      const slug = "(?!\\.{1,2}(/|$))[^/\\\\%#?]+";
      const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
      return path
        .replace(":slug", slug)
        .replace(":id", uuid)
        .replace(":snapshotId", "[0-9a-f]{64}")
        .replace(":name", "markets-[0-9]{4,}\\.parquet")
        .replace(
          "*logFile",
          "(checkpoint(s/[1-9]\\d{0,9})?|tile/(entries|\\d)/(x\\d{3}/){0,2}\\d{3}(\\.p/[1-9]\\d{0,2})?)",
        )
        .replace(":file", `(${file})`);
    });
    const table = new RegExp(`^(${written.join("|")})(\\?.*)?$`, "s");
    fc.assert(
      fc.property(
        target.map((parts) => `/${parts.join("")}`),
        (raw) => {
          const found = canonicalTarget(raw);
          if (found === raw && !nowhere.test(raw)) expect(raw).toMatch(table);
          else expect(found).toMatch(nowhere);
        },
      ),
      { numRuns: 5000 },
    );
  });
});
