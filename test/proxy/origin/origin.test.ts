import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Behaviour,
  type FaultyOrigin,
  good,
  respond,
  startFaultyOrigin,
  startOriginOf,
} from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, problemOf, until } from "../../helpers/http/proxy-client.ts";

let proxy: TestProxy;
let origin: FaultyOrigin;
beforeEach(async () => {
  origin = await startOriginOf(() => proxy.storage);
  proxy = await startTestProxy({ publicOrigin: origin.url });
});
afterEach(async () => {
  await proxy.stop();
  await origin.stop();
});

const path = "/api/v1/scores/aave";

describe("a good origin", () => {
  test("is asked for the object under its own path, with nothing of the client", async () => {
    const answer = await proxy.get(path, {
      headers: {
        cookie: "c=1",
        "x-forwarded-host": "evil.test",
        range: "bytes=0-1",
        te: "trailers",
        accept: "x/y",
      },
    });
    expect(answer.status).toBe(200);
    expect(answer.headers["content-type"]).toBe("application/json");
    for (const name of ["server", "set-cookie", "x-amz-id"]) expect(answer.headers[name]).toBeUndefined();
    expect(origin.requests).toHaveLength(1);
    const [line, ...fields] = origin.requests[0]!.toLowerCase().split("\r\n");
    expect(line).toMatch(/^get \/cdn\/public\/objects\/[0-9a-f]{64}\.json http\/1\.1$/);
    expect(fields.sort()).toEqual([
      "accept-encoding: identity",
      "connection: keep-alive",
      `host: ${origin.url.host}`,
    ]);
  });

  test("is asked once for each object, over one connection, however many ask", async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => proxy.get(path)));
    expect(new Set(answers.map(outcome))).toEqual(new Set(["200"]));
    expect(origin.requests).toHaveLength(1);
    for (const slug of ["curve.fi", "lido-dao", "constructor"]) await proxy.get(`/api/v1/scores/${slug}`);
    await proxy.get(path, { headers: { "accept-encoding": "gzip" } });
    expect([origin.requests.length, origin.connections]).toEqual([4, 1]);
  });

  test("is not asked for unknown slugs, nor for what the client holds", async () => {
    await proxy.get("/api/v1/scores/unknown");
    expect((await proxy.get("/api/v1/scores/batch", { method: "OPTIONS" })).status).toBe(204);
    expect((await proxy.get(path, { headers: { "if-none-match": "*" } })).status).toBe(304);
    expect(origin.requests).toHaveLength(0);
  });

  test("may close a kept connection at the worst moment", async () => {
    await proxy.get(path);
    let resets = 0;
    origin.behave = (socket, body, target) => {
      if (resets++ === 0) socket.resetAndDestroy();
      else good(socket, body, target);
    };
    expect(outcome(await proxy.get("/api/v1/scores/curve.fi"))).toBe("200");
  });

  test("serves the others when the client that asked first goes away", async () => {
    let answerNow = () => {};
    origin.behave = (socket, body, target) => {
      answerNow = () => good(socket, body, target);
    };
    const leader = connect(proxy.port, "127.0.0.1");
    leader.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await until("the origin to get a request", () => origin.requests.length === 1);
    const follower = proxy.get(path);
    leader.destroy();
    // Another request takes the place of the one that went away with its client.
    await until("the origin to get a second request", () => origin.requests.length === 2);
    answerNow();
    expect(outcome(await follower)).toBe("200");
  });
});

const cut: Behaviour = (socket, body) => {
  socket.end(
    Buffer.concat([
      Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`),
      body.subarray(0, 50),
    ]),
  );
};
const chunked =
  (end: string): Behaviour =>
  (socket, body) => {
    const part = body.subarray(0, 50).toString();
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n32\r\n${part}\r\n${end}`);
    if (end === "") socket.end();
  };

/** What an origin does, and what the client is told of it. */
const faults: Record<string, [what: string, Behaviour][]> = {
  "502 UPSTREAM_ERROR": [
    ["resets before a byte", (socket) => socket.resetAndDestroy()],
    ["closes before a byte", (socket) => socket.end()],
    ["cuts the body off", cut],
    ["ends the chunks early", chunked("0\r\n\r\n")],
    ["cuts the chunks off", chunked("")],
    ["sends garbage", (socket) => socket.end("garbage\r\n\r\n")],
    ["sends more", (socket, body) => respond(socket, "200 OK", [], Buffer.concat([body, body]))],
    ["sends less", (socket, body) => respond(socket, "200 OK", [], body.subarray(1))],
    ["sends other bytes", (socket, body) => respond(socket, "200 OK", [], Buffer.from(body).fill(32, 1, 9))],
    ["compresses", (socket, body) => respond(socket, "200 OK", ["Content-Encoding: gzip"], gzipSync(body))],
    ["answers 403 in XML", (socket) => respond(socket, "403 Forbidden", [], "<Error>SECRET</Error>")],
    ["answers 404", (socket) => respond(socket, "404 Not Found", [], "no")],
    ["answers 500", (socket) => respond(socket, "500 Oops", [], "no")],
    ["answers 304", (socket) => socket.write("HTTP/1.1 304 Not Modified\r\n\r\n")],
    ["redirects", (socket) => respond(socket, "302 Found", ["Location: http://169.254.169.254/"], "")],
    ["switches protocols", (socket) => socket.write(switching)],
  ],
  "504 UPSTREAM_TIMEOUT": [
    ["never answers", () => {}],
    ["never ends its head", (socket) => socket.write("HTTP/1.1 200 OK\r\nX: ")],
    [
      "never ends its body",
      (socket, body) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n{`),
    ],
  ],
};
const switching = "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";

describe("a faulty origin", () => {
  test.each(Object.entries(faults))(
    "%s: a unit returned, and the next try is a new one",
    async (code, ways) => {
      await proxy.stop();
      const limits = code.startsWith("504") ? { originSeconds: 2 } : {};
      // Nothing is kept of an answer, so that every request needs the origin.
      proxy = await startTestProxy({ publicOrigin: origin.url, limits, cacheBytes: 8 });
      for (const [place, [what, behave]] of ways.entries()) {
        origin.behave = behave;
        const answer = await proxy.get(path);
        expect([what, outcome(answer)]).toEqual([what, code]);
        expect(JSON.stringify(answer.headers) + answer.text).not.toMatch(
          /SECRET|169\.254|objects|127\.0\.0\.1/,
        );
        expect([what, answer.headers["x-ratelimit-remaining"]]).toEqual([what, String(1000 - place)]);
        origin.behave = good;
        expect([what, outcome(await proxy.get(path))]).toEqual([what, "200"]);
      }
    },
  );

  test.each([
    ["cuts the body off", cut],
    ["cuts the chunks off", chunked("")],
    ["resets before a byte", (socket: Socket) => socket.resetAndDestroy()],
  ])("that %s twice is asked a third time", async (_what, behave) => {
    let asked = 0;
    origin.behave = (socket, body, target) => {
      asked += 1;
      if (asked < 3) behave(socket, body, target);
      else good(socket, body, target);
    };
    expect(outcome(await proxy.get(path))).toBe("200");
    expect(asked).toBe(3);
  });

  test("that refuses connections; what is known is still served", async () => {
    await proxy.get(path);
    await origin.stop();
    expect(outcome(await proxy.get("/api/v1/scores"))).toBe("502 UPSTREAM_ERROR");
    expect(outcome(await proxy.get(path))).toBe("200");
    origin = await startFaultyOrigin(async () => Buffer.alloc(0));
  });

  test("says nothing of itself to the client and its story to the log", async () => {
    origin.behave = (socket) => respond(socket, "403 Forbidden", [], "SECRET");
    expect(problemOf(await proxy.get(path)).detail).toBe("The origin did not deliver the data; try again.");
    await proxy.logs("the origin answered 403");
  });
});
