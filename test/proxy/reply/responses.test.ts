import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, outcome, problemOf, raw, until } from "../../helpers/http/proxy-client.ts";
import { publishArchive } from "../../helpers/publish/records.ts";

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
  test.each([
    ["a list", list, 200],
    ["an archive page", archive, 200],
    ["the status", "/api/v1/status", 200],
    ["health", "/healthz", 200],
    ["an unknown address", "/nothing", 404],
    ["a refused parameter", `${list}?x=1`, 400],
  ])("%s: security, request id, snapshot", async (_what, path, status) => {
    const answer = await proxy.get(path, keyed({ "x-request-id": "mine" }));
    expect(answer.status).toBe(status);
    expect(common(answer)).toEqual({ csp: true, sniff: "nosniff", by: undefined, id: 36 });
    expect(answer.headers["x-snapshot-id"]).toMatch(/^[0-9a-f]{64}$/);
    expect(answer.headers["content-type"]).toMatch(/^application\/(problem\+)?json$/);
    expect(Number(answer.headers["content-length"])).toBe(answer.body.length);
  });

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

  test("405 names the methods", async () => {
    const answer = await proxy.get(list, { method: "DELETE" });
    expect(answer.headers.allow).toBe("GET, HEAD, OPTIONS");
    expect((await proxy.get("/api/v1/scores/batch")).headers.allow).toBe("POST, OPTIONS");
  });

  test("caching: public data of a caller without a key a minute, keyed and archive never unasked", async () => {
    const rule = async (path: string, how = {}) => (await proxy.get(path, how)).headers["cache-control"];
    expect(await rule(list)).toBe("private, max-age=60, stale-while-revalidate=600");
    expect(await rule(list, keyed())).toBe("private, no-cache");
    expect(await rule(archive, keyed())).toBe("private, no-cache");
    expect(await rule(list, keyed({ "if-none-match": "*" }))).toBe("private, no-cache");
    expect(await rule(`${list}?x=1`)).toBe("no-store");
  });
});

describe("HEAD", () => {
  test.each([list, "/api/v1/scores/aave", archive, "/api/v1/status", "/healthz", "/readyz", `${list}?x=1`])(
    "%s: the headers of GET and no body",
    async (path) => {
      const [get, head] = [
        await proxy.get(path, keyed()),
        await proxy.get(path, { method: "HEAD", ...keyed() }),
      ];
      expect(head.status).toBe(get.status);
      expect(head.body.length).toBe(0);
      const comparable = ({ headers }: Answer) => {
        const { date, "x-request-id": id, "x-ratelimit-remaining": left, ratelimit, ...rest } = headers;
        return rest;
      };
      expect(comparable(head)).toEqual(comparable(get));
    },
  );
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
    const headers = { ...bearer(aegis), ...(accept !== undefined && { "accept-encoding": accept }) };
    for (const path of [list, "/api/v1/scores/curve.fi", archive, "/api/v1/status"]) {
      const answer = await proxy.get(path, { headers });
      const plain = await proxy.get(path, keyed());
      expect(answer.headers["content-encoding"]).toBe(coding);
      expect(answer.text).toBe(plain.text);
      if (coding) expect(gunzipSync(answer.body).toString()).toBe(plain.text);
    }
  });
});

describe("If-None-Match", () => {
  const encodings = [undefined, "gzip", "identity"] as const;
  const ask = (path: string, encoding: string | undefined, tag?: string) => {
    const accept = encoding === undefined ? {} : { "accept-encoding": encoding };
    return proxy.get(path, keyed({ ...accept, ...(tag && { "if-none-match": tag }) }));
  };

  test.each([list, "/api/v1/scores/aave", archive])(
    "%s: 304 for what is held, by any spelling",
    async (path) => {
      for (const encoding of encodings) {
        const full = await ask(path, encoding);
        const tag = full.headers.etag!;
        const opaque = tag.replace(/^W\//, "");
        for (const held of [tag, opaque, `W/${opaque}`, `"other", ${tag}`, `W/"x",${opaque}`, "*"]) {
          const answer = await ask(path, encoding, held);
          expect([encoding, held, answer.status, answer.body.length]).toEqual([encoding, held, 304, 0]);
          if (held !== "*") expect(answer.headers.etag).toBe(tag);
          expect(answer.headers["content-encoding"]).toBeUndefined();
        }
        for (const other of ['"other"', opaque.slice(1, -1), `"${opaque.slice(1, -2)}"`])
          expect((await ask(path, encoding, other)).status).toBe(200);
      }
    },
  );

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

describe("a new snapshot", () => {
  test("is taken up within a poll, with other tags; a walk goes on in the old one", async () => {
    const own = await startTestProxy();
    const key = await own.issue();
    const old = await own.get(list);
    const first = await own.get("/api/v1/markets/historical?pageSize=30", { headers: bearer(key) });
    await publishArchive(own.storage, { markets: 60, bri: 711 });
    await until("commit 2 to be served", async () => (await own.get("/api/v1/status")).json().commit === 2);
    const fresh = await own.get(list, { headers: { "if-none-match": old.headers.etag! } });
    expect(fresh.status).toBe(200);
    expect(fresh.json().scores[0].bri).toBe(711);
    expect(fresh.headers["x-snapshot-id"]).not.toBe(old.headers["x-snapshot-id"]);
    const next = await own.get(`/api/v1/markets/historical?cursor=${first.json().nextCursor}`, {
      headers: bearer(key),
    });
    expect(next.json()).toMatchObject({ total: 40, count: 10 });
    expect(next.headers["x-snapshot-id"]).toBe(first.headers["x-snapshot-id"]);
    await own.stop();
  });

  test("a poll that fails is logged and the last good snapshot stays", async () => {
    const own = await startTestProxy();
    await own.storage.put(layout.commit(2), Buffer.from("{}"));
    await own.logs("polling the store failed");
    expect(outcome(await own.get(list))).toBe("200");
    await own.stop();
  });
});

describe("what never becomes a request", () => {
  const send = (bytes: string) => raw(proxy.port, bytes);
  const parsed = (text: string): Answer => {
    const [head = "", body = ""] = text.split("\r\n\r\n");
    const [line = "", ...fields] = head.split("\r\n");
    const headers = Object.fromEntries(
      fields.map((field) => [field.split(": ")[0]!.toLowerCase(), field.split(": ")[1]]),
    );
    return {
      status: Number(line.split(" ")[1]),
      headers,
      body: Buffer.from(body),
      text: body,
      json: () => JSON.parse(body),
    };
  };
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
    const answer = parsed(await send(bytes));
    expect(outcome(answer)).toBe(expected);
    expect(problemOf(answer).detail).not.toContain("xxx");
    expect(common(answer)).toMatchObject({ csp: true, sniff: "nosniff" });
    expect(answer.headers.connection).toBe("close");
  });

  test.each([
    ["chunked", `Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
    ["sized", `Content-Length: 5\r\n\r\nhello`],
    ["announced", `Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`],
    ["of an odd expectation", `Expect: wonders\r\nContent-Length: 5\r\n\r\nhello`],
  ])(
    "a %s body is not read where none belongs: one answer, no 100, and the connection ends",
    async (_what, rest) => {
      for (const line of [
        "GET /healthz",
        "DELETE /api/v1/scores",
        "OPTIONS /api/v1/scores",
        "OPTIONS /api/v1/scores/batch",
        "PUT /api/v1/scores/batch",
      ]) {
        const answer = await send(
          `${line} HTTP/1.1\r\n${host}${rest}GET /api/v1/scores HTTP/1.1\r\n${host}\r\n`,
        );
        expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
        expect(answer).not.toContain("HTTP/1.1 100");
        expect(answer).toContain("Connection: close");
      }
    },
  );

  test("an upgrade that is none, or not allowed, is answered like any request", async () => {
    const upgrade = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    const answer = await send(
      `GET /api/v1/ws/scores HTTP/1.1\r\n${host}${upgrade}Sec-WebSocket-Key: eA==\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(
      await send(
        `GET /healthz HTTP/1.1\r\n${host}Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1\.1 200 /);
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
