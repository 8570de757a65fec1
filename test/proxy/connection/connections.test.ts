import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, onTestFinished, test } from "vitest";
import { type FaultyOrigin, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { feedPath, handshake } from "../../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { open, outcome, until } from "../../helpers/http/proxy-client.ts";

const list = "/api/v1/scores";
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
function hold(bytes: string, { port } = proxy) {
  const held = open(port, bytes, { allowHalfOpen: true });
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

  test("makes room once it has its answer", async () => {
    await start({ limits: { connections: 20 } });
    const held = Array.from({ length: 20 }, (_, place) => hold(place % 2 ? tunnel : get(feedPath, upgrade)));
    await until("every held connection to get an answer", () =>
      held.every(({ received }) => received !== ""),
    );
    await until(
      "a new connection to be let in",
      async () => (await proxy.get("/healthz").then(outcome, () => "turned away")) === "200",
    );
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
  const waiting = (count: number) => get("/healthz").repeat(count);

  test("wait, 16 of them", async () => {
    await start();
    const held = hold(get(list) + waiting(16));
    await until("the origin to owe an answer", () => owed.length === 1);
    owed[0]!();
    await until("sixteen pipelined answers", () => held.received.split('{"status":"alive"}').length === 17);
  });

  test("cut the connection when they are more, also behind a body", async () => {
    await start();
    for (const first of [get(list), withBody]) {
      const held = hold(first);
      const before = owed.length;
      await until("the origin to owe one more answer", () => owed.length > before);
      // Far more than one read takes.
      held.socket.write(waiting(10_000));
      expect(await held.closed).toBe("");
    }
    await noneIsOpen();
  });

  test("are no longer parsed once the connection is cut, however many came in one read", async () => {
    await start();
    let parsed = 0;
    const count = () => {
      parsed += 1;
    };
    subscribe("http.server.request.start", count);
    const garbage = "GET / HTTP/1.1\r\n\r\n".repeat(3_700);
    for (const first of [get(list), withBody, ""]) {
      parsed = 0;
      await hold(first + garbage).closed;
      expect(parsed).toBeGreaterThan(16);
      expect(parsed).toBeLessThanOrEqual(18);
    }
    unsubscribe("http.server.request.start", count);
    await noneIsOpen();
  });
});
