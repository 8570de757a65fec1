import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, answersOf, bearer, outcome, problemOf, raw } from "../../helpers/http/proxy-client.ts";

const list = "/api/v1/scores";
const archive = "/api/v1/markets/historical?pageSize=20";

let proxy: TestProxy;
let aegis: string;
beforeAll(async () => {
  proxy = await startTestProxy();
  aegis = await proxy.issue();
});
afterAll(() => proxy.stop());

const keyed = (headers: Record<string, string> = {}) => ({ headers: { ...bearer(aegis), ...headers } });
const common = (answer: Answer) => {
  const {
    "content-security-policy": csp,
    "x-content-type-options": sniff,
    "x-powered-by": by,
  } = answer.headers;
  return {
    csp: String(csp).startsWith("default-src 'none'"),
    sniff,
    by,
    id: answer.headers["x-request-id"]?.length,
  };
};

describe("headers of every response", () => {
  test("CORS and Vary on everything of the API, errors included, and on no page", async () => {
    for (const [path, chosen = ""] of [
      // Its media type is what the caller accepts.
      [list, ", Accept"],
      [archive],
      [`${list}?x=1`],
      ["/api/v1/nothing"],
      ["/api/v1/status"],
      ["/api/v1/ws/scores"],
      ["/delta-sharing/shares"],
      ["/readyz"],
      ["/healthz"],
    ] as const) {
      const { headers } = await proxy.get(path);
      expect(headers["access-control-allow-origin"]).toBe("*");
      expect(headers["access-control-expose-headers"]).toMatch(
        /X-RateLimit-Remaining.*RateLimit-Policy.*Accept-Ranges, Content-Range, Delta-Table-Version.*ETag/,
      );
      expect(headers.vary).toBe(`Accept-Encoding, Authorization, X-Api-Key${chosen}`);
    }
    expect((await proxy.get("/nothing")).headers["access-control-allow-origin"]).toBeUndefined();
  });

  test("a preflight needs no key, costs nothing and names methods and headers", async () => {
    const before = await proxy.get(list);
    for (const path of [
      "/api/v1/scores/aave?x=1",
      "/api/v1/markets/exports",
      `/delta-sharing/files/${"0".repeat(64)}.parquet?key=x`,
      "/client.mjs",
      "/openapi.json",
      "/readyz",
    ]) {
      const answer = await proxy.get(path, { method: "OPTIONS" });
      expect([path, answer.status]).toEqual([path, 204]);
      expect(answer.headers).toMatchObject({
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET, HEAD, OPTIONS",
        "access-control-max-age": "86400",
        allow: "GET, HEAD, OPTIONS",
      });
      expect(answer.headers["access-control-allow-headers"]?.split(", ")).toEqual(
        expect.arrayContaining([
          ...["authorization", "x-api-key", "content-type", "if-none-match", "if-modified-since"],
          ...["cache-control", "pragma", "range", "if-range", "traceparent", "x-requested-with"],
          "delta-sharing-capabilities",
        ]),
      );
    }
    const page = await proxy.get("/", { method: "OPTIONS" });
    expect([page.status, Object.keys(page.headers).filter((name) => name.includes("access"))]).toEqual([
      204,
      [],
    ]);
    const after = await proxy.get(list);
    const left = (one: Answer) => Number(one.headers["x-ratelimit-remaining"]);
    expect(left(after)).toBe(left(before) - 1);
  });
});

describe("codings", () => {
  const cases: [string | undefined, string | undefined][] = [
    [undefined, undefined],
    ["gzip", "gzip"],
    ["GZIP", "gzip"],
    ["gzip, deflate, br, zstd", "gzip"],
    ["br;q=1, gzip;q=0.1", "gzip"],
    ["*", "gzip"],
    ["identity;q=0, gzip", "gzip"],
    ["identity;q=1, gzip;q=0.5", "gzip"],
    ["gzip;q=0", undefined],
    ["gzip;q=0, *", undefined],
    ["*;q=0", undefined],
    ["identity", undefined],
    ["identity;q=0", undefined],
    ["br", undefined],
    ["", undefined],
    ["gzip;q=nonsense", undefined],
    ["gzip, ".padEnd(1024, "b"), "gzip"],
    ["gzip, ".padEnd(1025, "b"), undefined],
  ];
  test.each(cases)("Accept-Encoding %j gets %j, and the same JSON", async (accept, coding) => {
    const plain = (await proxy.get(list)).text;
    const headers = { ...bearer(aegis), ...(accept !== undefined && { "accept-encoding": accept }) };
    const answer = await proxy.get(list, { headers });
    expect([answer.headers["content-encoding"], answer.text]).toEqual([coding, plain]);
  });
});

describe("If-None-Match", () => {
  const ask = (path: string, encoding: string | undefined, tag?: string) => {
    const accept = encoding === undefined ? {} : { "accept-encoding": encoding };
    return proxy.get(path, keyed({ ...accept, ...(tag && { "if-none-match": tag }) }));
  };

  test("strong tags differ by coding, and either is honoured where that coding is acceptable", async () => {
    const [plain, zipped] = [
      (await ask(list, "identity")).headers.etag!,
      (await ask(list, "gzip")).headers.etag!,
    ];
    expect(plain).not.toBe(zipped);
    expect(plain).toMatch(/^"[0-9a-f]{64}"$/);
    expect((await ask(list, "gzip", plain)).status).toBe(304);
    expect((await ask(list, undefined, zipped)).status).toBe(304);
    expect((await ask(list, "identity", zipped)).status).toBe(200);
  });
});

describe("what never becomes a request", () => {
  const send = (bytes: string) => raw(proxy.port, bytes);
  const host = "Host: proxy.test\r\n";

  test.each([
    ["no HTTP", "hello\r\n\r\n", "400 BAD_REQUEST"],
    ["an unknown method", `BREW / HTTP/1.1\r\n${host}\r\n`, "400 BAD_REQUEST"],
    ["a space in the target", `GET /api/v1/scores /x HTTP/1.1\r\n${host}\r\n`, "400 BAD_REQUEST"],
    ["a header without colon", `GET / HTTP/1.1\r\n${host}nonsense\r\n\r\n`, "400 BAD_REQUEST"],
    [
      "two lengths",
      `POST /x HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      "400 BAD_REQUEST",
    ],
    [
      "length and chunks",
      `POST /x HTTP/1.1\r\n${host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
      "400 BAD_REQUEST",
    ],
    [
      "a head too long",
      `GET /healthz HTTP/1.1\r\n${host}X: ${"x".repeat(20_000)}\r\n\r\n`,
      "431 HEADERS_TOO_LARGE",
    ],
    ["a target too long", `GET /${"x".repeat(20_000)} HTTP/1.1\r\n${host}\r\n`, "431 HEADERS_TOO_LARGE"],
    ["CONNECT", `CONNECT evil.test:443 HTTP/1.1\r\n${host}\r\n`, "404 NOT_FOUND"],
    ["no Host", "GET /api/v1/scores HTTP/1.1\r\nConnection: close\r\n\r\n", "400 BAD_REQUEST"],
    [
      "two Hosts",
      `GET /api/v1/scores HTTP/1.1\r\n${host}${host}Connection: close\r\n\r\n`,
      "400 BAD_REQUEST",
    ],
  ])("%s is answered in the one error shape, and the connection ends", async (_what, bytes, expected) => {
    const answer = answersOf(await send(bytes))[0]!;
    expect(outcome(answer)).toBe(expected);
    expect(problemOf(answer).detail).not.toContain("xxx");
    expect(common(answer)).toMatchObject({ csp: true, sniff: "nosniff" });
    expect(answer.headers.connection).toBe("close");
  });
});

describe("the log", () => {
  test("holds patterns and names of known parameters, no target, no value, no key", async () => {
    const secret = "SECRETCANARY";
    const line = async (path: string, headers: Record<string, string> = {}) => {
      const { "x-request-id": id } = (await proxy.get(path, { headers })).headers;
      return proxy.logs(String(id));
    };
    const page = JSON.parse(
      await line(`/api/v1/markets/historical?outcome=${secret}&min_composite=300`, bearer(aegis)),
    );
    expect(page.req).toMatchObject({
      route: "/api/v1/markets/historical",
      parameters: ["outcome", "min_composite"],
    });
    await line(`/api/v1/scores/${secret}?${secret}=1`, {
      "x-api-key": secret,
      cookie: secret,
      "user-agent": secret,
    });
    await line(`/${secret}`, { authorization: `Bearer ${secret}` });
    expect(proxy.logged.join("")).not.toContain(secret);
    expect(proxy.logged.join("")).not.toContain(aegis);
  });
});
