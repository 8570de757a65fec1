import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import {
  type Behaviour,
  type FaultyOrigin,
  good,
  respond,
  startOriginOf,
} from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, outcome, problemOf, until } from "../../helpers/http/proxy-client.ts";
import { publishArchive } from "../../helpers/publish/records.ts";

const list = "/api/v1/scores";
const path = `${list}/aave`;
const lido = `${list}/lido-dao`;
const snapshotOf = (answer: Answer) => answer.headers["x-snapshot-id"];

let proxy: TestProxy;
let origin: FaultyOrigin;
beforeEach(async () => {
  origin = await startOriginOf(() => proxy.storage);
  proxy = await startTestProxy({ publicOrigin: origin.url, limits: { originSeconds } });
});
afterEach(async () => {
  vi.useRealTimers();
  await proxy.stop();
  await origin.stop();
});

// Only a test lets this deadline pass, however slow the machine is. All others of a test proxy are longer.
const originSeconds = 1800;
const stopTime = () => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
const passDeadline = () => vi.advanceTimersByTime(originSeconds * 1000);

describe("a good origin", () => {
  test("is asked once for each object, over one connection, however many ask", async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => proxy.get(path)));
    expect(new Set(answers.map(outcome))).toEqual(new Set(["200"]));
    expect(origin.requests).toHaveLength(1);
    for (const slug of ["curve.fi", "lido-dao", "constructor"]) await proxy.get(`/api/v1/scores/${slug}`);
    await proxy.get(path, { headers: { "accept-encoding": "gzip" } });
    expect([origin.requests.length, origin.connections]).toEqual([4, 1]);
  });

  test("is not asked for unknown slugs, nor for what the client holds", async () => {
    await proxy.get(`${list}/unknown`);
    expect((await proxy.get("/api/v1/scores/batch", { method: "OPTIONS" })).status).toBe(204);
    expect((await proxy.get(path, { headers: { "if-none-match": "*" } })).status).toBe(304);
    expect(origin.requests).toHaveLength(0);
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

const tooMuch = Buffer.alloc(layout.publicObject.maxBytes + 1);
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
    ["sends more than any object has", (socket) => respond(socket, "200 OK", [], tooMuch)],
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
  test("is not asked for a batch, whose records come from the store", async () => {
    origin.behave = (socket) => socket.resetAndDestroy();
    const answer = await proxy.get(`${list}/batch`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ slugs: ["aave", "aave", "../../secret", "lido-dao"] }),
    });
    expect([outcome(answer), answer.json().count, origin.requests]).toEqual(["200", 2, []]);
  });

  test.each(Object.entries(faults))(
    "%s: a unit returned, and the next try is a new one",
    async (code, ways) => {
      const late = code.startsWith("504");
      if (late) stopTime();
      // Nothing is kept of an answer, so that every request needs the origin.
      const forgetful = await proxy.another({ cacheBytes: 8 });
      for (const [place, [what, behave]] of ways.entries()) {
        origin.behave = async (...asked) => {
          behave(...asked);
          // What it sent, if anything, arrives before.
          if (late) await pause(20).then(passDeadline);
        };
        const answer = await forgetful.get(path);
        expect([what, outcome(answer)]).toEqual([what, code]);
        expect(JSON.stringify(answer.headers) + answer.text).not.toMatch(
          /SECRET|169\.254|objects|127\.0\.0\.1/,
        );
        expect([what, answer.headers["x-ratelimit-remaining"]]).toEqual([what, String(1000 - place)]);
        const told = /^The origin did not (deliver the data|answer in time); try again\.$/;
        expect(problemOf(answer).detail).toMatch(told);
        origin.behave = good;
        expect([what, outcome(await forgetful.get(path))]).toEqual([what, "200"]);
      }
      // Its story is for the log alone.
      if (!late) await forgetful.logs("the origin answered 403");
      await forgetful.stop();
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
});

async function publishAnother(bri: number): Promise<void> {
  const before = snapshotOf(await proxy.get("/api/v1/status"));
  await publishArchive(proxy.storage, { bri });
  await until(
    "another snapshot to be served",
    async () => snapshotOf(await proxy.get("/api/v1/status")) !== before,
  );
}

describe("while the origin is away", () => {
  test("what it cannot give is served from the newest snapshot that is in memory, and says so", async () => {
    const known = await proxy.get(path);
    await publishAnother(701);
    origin.behave = (socket) => socket.resetAndDestroy();
    proxy.clock.now = Date.parse("2026-03-01T00:01:30.000Z");
    const stale = await proxy.get(path, { headers: { origin: "https://dashboard.test" } });
    expect([outcome(stale), stale.text]).toEqual(["200", known.text]);
    expect(snapshotOf(stale)).toBe(snapshotOf(known));
    expect(stale.headers).toMatchObject({
      etag: known.headers.etag,
      age: "90",
      "cache-status": "prs; hit; ttl=-90; detail=origin-away",
      "cache-control": "private, no-cache",
    });
    expect(stale.headers["access-control-expose-headers"]).toContain("Cache-Status");
    const table = await proxy.get(path, { headers: { accept: "text/csv" } });
    expect([outcome(table), table.headers.age, table.text.split(/[\n,]/)[0]]).toEqual(["200", "90", "slug"]);
    expect(table.headers.etag).not.toBe(known.headers.etag);
    expect(outcome(await proxy.get(lido))).toBe("502 UPSTREAM_ERROR");
    expect(outcome(await proxy.get(`${list}/unknown`))).toBe("404 PROTOCOL_NOT_FOUND");
  });

  test("nothing is served from a snapshot that was rolled back", async () => {
    await publishAnother(701);
    expect((await proxy.get(path)).json().bri).toBe(701);
    await rollback(proxy.storage, "1", () => new Date("2026-03-01T01:00:00.000Z"));
    await until("commit 3 to be served", async () => (await proxy.get("/api/v1/status")).json().commit === 3);
    origin.behave = (socket) => socket.resetAndDestroy();
    expect(outcome(await proxy.get(path))).toBe("502 UPSTREAM_ERROR");
  });

  test("it is left alone after five failures, and used again when it is back", async () => {
    stopTime();
    origin.behave = () => void (origin.requests.length >= 5 && passDeadline());
    const outcomes = await Promise.all(Array.from({ length: 5 }, (_, index) => ask(index)));
    expect(outcomes).toEqual(Array(5).fill("504 UPSTREAM_TIMEOUT"));
    // Once a second one request tries it.
    await until("the proxy to leave the origin alone", async () => {
      const asked = origin.requests.length;
      return (await ask(0)) === "502 UPSTREAM_ERROR" && origin.requests.length === asked;
    });
    origin.behave = good;
    await until("the proxy to use the origin again", async () => (await ask(0)) === "200");
    expect(await ask(1)).toBe("200");
  });
});

const objects = [list, path, lido, `${list}/curve.fi`, `${list}/constructor`];
const ask = async (index: number) => outcome(await proxy.get(objects[index]!));
