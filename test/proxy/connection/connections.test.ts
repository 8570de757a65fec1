import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Agent } from "node:http";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Limits } from "../../../proxy/config.ts";
import { type FaultyOrigin, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { feedPath, handshake } from "../../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { bearer, call, open, outcome, until } from "../../helpers/http/proxy-client.ts";

const list = "/api/v1/scores";
const archive = "/api/v1/markets/historical?pageSize=500";
const fieldsOf = (headers: object) =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
const get = (path: string, fields = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`;
const upgrade = fieldsOf(handshake);
const tunnel = "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n";

/** Requests pipelined behind one whose answer the origin still owes. */
const behindUnanswered = [
  get(`${list}/aave`) + get(feedPath, upgrade),
  get(`${list}/curve.fi`) + tunnel,
  `${get(list)}garbage\r\n\r\n`,
];

let proxy: TestProxy;
let origin: FaultyOrigin;
/** Answers of the origin that it holds back. */
let owed: (() => void)[] = [];

/** Starts a proxy over an origin that holds back its answers. */
async function start(options: TestProxyOptions = {}): Promise<void> {
  origin = await startOriginOf(() => proxy.storage);
  onTestFinished(origin.stop);
  const { behave } = origin;
  owed = [];
  origin.behave = (...asked) => owed.push(() => behave(...asked));
  proxy = await startTestProxy({ publicOrigin: origin.url, cacheBytes: 8, ...options });
  onTestFinished(proxy.stop);
}

/** Sends bytes on a connection whose client never closes its side. */
function hold(bytes: string, { port } = proxy, allowHalfOpen = true) {
  const held = open(port, bytes, { allowHalfOpen });
  onTestFinished(() => void held.socket.destroy());
  return held;
}

const connections = ({ measured } = proxy) => measured("http_connections");
const noneIsOpen = () => until("the last connection to close", async () => (await connections()) === 0);

describe("a connection whose client never closes it", () => {
  const refused: [string, string, string][] = [
    ["a handshake without a key", get(feedPath, upgrade), "401"],
    ["a handshake that breaks a rule of its protocol", get(feedPath, upgrade.replace("13", "8")), "401"],
    ["an upgrade to another protocol", get("/healthz", "Connection: Upgrade\r\nUpgrade: h2c\r\n"), "200"],
    ["CONNECT", tunnel, "404"],
    ["an expectation of nothing known", get("/healthz", "Expect: wonders\r\n"), "200"],
    ["an expectation before no body", get("/healthz", "Expect: 100-continue\r\n"), "200"],
    ["bytes that are no head", "garbage\r\n\r\n", "400"],
    ["a head that is too long", get("/healthz", `X: ${"x".repeat(32 * 1024)}\r\n`), "431"],
  ];
  test("is destroyed soon after the answer, whatever it asked that is refused", async () => {
    await start();
    const held = refused.flatMap(([what, bytes, status]) =>
      // What a client goes on to send does not cost it the answer.
      ["", "more\r\n\r\n"].map((rest) => ({ what: what + rest, status, connection: hold(bytes + rest) })),
    );
    await until("every held connection to get an answer", () =>
      held.every(({ connection }) => connection.received !== ""),
    );
    for (const { what, connection, status } of held) {
      const { received } = connection;
      expect([what, received.slice(9, 12)]).toEqual([what, status]);
      expect([what, received.match(/^connection: .*/gim)]).toEqual([
        what,
        [expect.stringMatching(/^connection: (upgrade, )?close$/i)],
      ]);
    }
    await noneIsOpen();
  });

  test("is destroyed when nothing moves, with an answer due before what is refused", async () => {
    await start({ limits: { stalledSeconds: 1 } });
    for (const bytes of behindUnanswered) hold(bytes);
    await until("the origin to get three requests", () => origin.requests.length === 3);
    await noneIsOpen();
  });

  test("does not keep the process, whatever kind it is", async () => {
    await start();
    const ending = await proxy.another({ shutdownSeconds: 1 });
    const idle = hold(get("/healthz"), ending);
    for (const bytes of [...behindUnanswered, "GET /healthz HTTP/1.1\r\n", ""]) hold(bytes, ending);
    await until(
      "three requests at the origin and one answer",
      () => origin.requests.length === 3 && idle.received !== "",
    );
    await until("six open connections", async () => (await connections(ending)) === 6);
    // What is refused at the last moment too.
    for (const bytes of [tunnel, get(feedPath, upgrade), "garbage\r\n\r\n"]) hold(bytes, ending);
    await ending.stop();
    expect(await connections(ending)).toBe(0);
  });
});

describe("requests behind one that is not answered yet", () => {
  const withBody = `${get(`${list}/lido-dao`, "Content-Length: 4\r\n")}body`;
  test("wait, 16 of them", async () => {
    await start();
    const held = hold(get(list) + get("/healthz").repeat(16));
    await until("the origin to owe an answer", () => owed.length === 1);
    owed[0]!();
    await until("sixteen pipelined answers", () => held.received.split('{"status":"alive"}').length === 17);
  });

  test("cut the connection when they are more, and are then no longer parsed, however many came in one read, also behind a body", async () => {
    await start();
    let parsed = 0;
    const count = () => {
      parsed += 1;
    };
    subscribe("http.server.request.start", count);
    const garbage = "GET / HTTP/1.1\r\n\r\n".repeat(3_700);
    for (const first of [get(list), withBody, ""]) {
      parsed = 0;
      expect(await hold(first + garbage).closed).toBe("");
      expect(parsed).toBeGreaterThan(16);
      expect(parsed).toBeLessThanOrEqual(18);
    }
    unsubscribe("http.server.request.start", count);
    await noneIsOpen();
  });
});

/** Sends bytes on a connection that ends as soon as the proxy ends its side. */
const begin = (bytes: string) => hold(bytes, proxy, false);

/** Starts a proxy without an origin. */
async function startLimited(limits: Partial<Limits>, options: TestProxyOptions = {}): Promise<void> {
  proxy = await startTestProxy({ ...options, limits, trustProxy: { hops: 1 } });
  onTestFinished(proxy.stop);
}

const many = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i));
/** Others are answered too; one whose own head or answer waits for a busy machine is cut off and asks again. */
const othersAreAnswered = () =>
  until("another client to be answered", () =>
    proxy.get(list).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
describe("slow clients", () => {
  test("40 that never end their heads, one of which goes on now and then, are cut off, with 408, while others are answered", async () => {
    await startLimited({ headSeconds: 1, requestSeconds: 2 });
    const halves = many(40, (index) => begin(`GET ${list} HTTP/1.1\r\nHost: x\r\nX-Half: ${index}`));
    const drip = setInterval(() => halves[0]!.socket.writable && halves[0]!.socket.write("x"), 50);
    for (const _ of many(20, String)) await othersAreAnswered();
    const answers = await Promise.all(halves.map(({ closed }) => closed));
    clearInterval(drip);
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 408 .*"code":"REQUEST_TIMEOUT"/s);
    await othersAreAnswered();
  });
});

test("connections beyond the limit are turned away; those that were idle for longest make room before", async () => {
  await startLimited({ connections: 20 }, { keepAliveSeconds: 620 });
  const answered = ({ socket }: { socket: Socket }, bytes = 0) =>
    until("an answer", () => socket.bytesRead > bytes);
  const idle = many(10, () => begin(get("/healthz")));
  for (const each of idle) await answered(each);
  const { socket, closed } = idle[0]!;
  const before = socket.bytesRead;
  socket.write(get("/healthz"));
  await answered(idle[0]!, before);
  const turnedAway = () => proxy.measured("http_connections_dropped_total");
  const busy: ReturnType<typeof hold>[] = [];
  for (const _ of many(19, String)) {
    const one = begin(`GET ${list} HTTP/1.1\r\n`);
    await until("a connection to be made", () => !one.socket.connecting);
    busy.push(one);
    // The tenth is the twentieth in all. From then on there is always room for one more.
    const ended = Math.max(0, busy.length - 9);
    for (const { closed } of idle.slice(1, 1 + ended)) expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
    if (ended < 10) expect(socket.closed).toBe(false);
  }
  expect(await closed).toMatch(/^keep-alive: timeout=620\r$/im);
  expect(await turnedAway()).toBe(0);
  busy.push(begin(`GET ${list} HTTP/1.1\r\n`));
  await until("the last connection to be made", () => !busy.at(-1)!.socket.connecting);
  expect(await begin(get("/healthz")).closed).toBe("");
  expect(await turnedAway()).toBe(1);
  for (const { socket } of busy) socket.write(`Host: x\r\nConnection: close\r\n\r\n`);
  for (const { closed } of busy) expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
});

/** Asks again and again on one kept connection until it is refused a new one; tells how each request ended. */
async function load(path: string, headers: Record<string, string>): Promise<string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ends: string[] = [];
  while (ends.at(-1) !== "ECONNREFUSED") {
    const ended = call(proxy.port, path, { agent, headers }).then(outcome, (error) => error.code);
    ends.push(await ended);
  }
  agent.destroy();
  return ends;
}

describe("a proxy that is told to stop under load", () => {
  beforeEach(async () => {
    proxy = await startTestProxy({ shutdownSeconds: 60 });
  });

  test("answers every request it was sent, then refuses connections", async () => {
    const key = await proxy.issue();
    const paths = [list, archive, `${archive}&min_composite=500`, "/api/v1/scores/aave"];
    const clients = Array.from({ length: 12 }, (_, index) => load(paths[index % 4]!, bearer(key)));
    await until("the first answers to be counted", async () => (await proxy.left(key)) < 99_900);
    await proxy.stop();
    for (const ends of await Promise.all(clients)) {
      expect(ends.pop()).toBe("ECONNREFUSED");
      expect(new Set(ends)).toEqual(new Set(["200"]));
    }
  });

  test("answers those whose connections the kernel has made and it has not yet taken", async () => {
    const sent = Array.from({ length: 50 }, () => call(proxy.port, list));
    // The proxy accepts one connection per turn of the event loop.
    await nextTurn();
    const stopped = proxy.stop();
    const ends = sent.map((answer) => answer.then(outcome, (error) => error.code));
    expect(new Set(await Promise.all(ends))).toEqual(new Set(["200"]));
    await stopped;
  });

  test("still answers the next request of a kept connection, as its last, with readiness refused", async () => {
    const ready = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    const sent = open(proxy.port, ready);
    await until("the first answer", () => sent.received.includes("ready"));
    const stopped = proxy.stop();
    sent.socket.write(ready);
    expect(await sent.closed).toMatch(/HTTP\/1\.1 200 .*HTTP\/1\.1 503 .*Connection: close.*is ending/s);
    await stopped;
  });
});
