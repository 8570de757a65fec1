import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { found, spellingsOf } from "../../helpers/attack/canaries.ts";
import {
  connections,
  feedPath,
  handshake,
  hello,
  type ListenChoices,
  type Listener,
  leave,
  listen,
  listenGreeted,
  startFeedProxy,
} from "../../helpers/http/live-feed.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, outcome, problemOf, until } from "../../helpers/http/proxy-client.ts";
import { bookOf } from "../../helpers/publish/score-books.ts";

let proxy: TestProxy;
let first: string;
let key: string;
let aegis: string;
beforeAll(async () => {
  ({ proxy, first, key } = await startFeedProxy(bookOf({ aave: 500 }), { trustProxy: { hops: 1 } }));
  aegis = await proxy.issue({ owner: "other" });
});
afterAll(() => proxy.stop());

/** A handshake that is to be refused. */
const ask = (headers: Record<string, string>, search = "", method = "GET"): Promise<Answer> =>
  proxy.get(`${feedPath}${search}`, { method, headers: { ...handshake, ...headers } });
describe("a key", () => {
  const offered = (...names: string[]) => names.map((name) => (name === "KEY" ? `bearer.${key}` : name));
  const ways: [string, () => ListenChoices][] = [
    ["in the header Authorization", () => ({ headers: bearer(key) })],
    ["in the header x-api-key", () => ({ headers: { "x-api-key": key } })],
    ["as a subprotocol", () => ({ headers: {}, protocols: offered("scores.v1", "KEY") })],
    [
      "as the first subprotocol of several",
      () => ({ headers: {}, protocols: offered("KEY", "x", "scores.v1") }),
    ],
    [
      "in all three places",
      () => ({ headers: { ...bearer(key), "x-api-key": key }, protocols: offered("scores.v1", "KEY") }),
    ],
  ];
  test.each(ways)("is taken %s, and left in no answer and no log", async (_way, choices) => {
    const spellings = spellingsOf([key]);
    const listener = await listenGreeted(proxy.port, key, choices());
    expect(listener.heard).toEqual([hello(first)]);
    expect(listener.socket.protocol).toBe("scores.v1");
    expect(found(spellings, JSON.stringify(listener.headers))).toEqual([]);
    await leave(proxy, listener);
    const { "x-request-id": id } = listener.headers;
    expect(JSON.parse(await proxy.logs(String(id)))).toMatchObject({
      msg: "went live",
      res: { status: 101 },
    });
    for (const each of proxy.logged) expect([each, found(spellings, each)]).toEqual([each, []]);
  });

  test("of either plan opens the feed; without one, or with another, it stays shut", async () => {
    const both = await Promise.all([key, aegis].map((each) => listenGreeted(proxy.port, each)));
    await leave(proxy, ...both);
    const unknown = `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`;
    const refused: [Record<string, string>, string][] = [
      [{}, "401 API_KEY_REQUIRED"],
      [bearer(unknown), "401 INVALID_API_KEY"],
      [{ "Sec-WebSocket-Protocol": `scores.v1, bearer.${unknown}` }, "401 INVALID_API_KEY"],
      [{ "Sec-WebSocket-Protocol": "scores.v1, bearer." }, "401 INVALID_API_KEY"],
      [{ "Sec-WebSocket-Protocol": `bearer.${key}, bearer.${key}` }, "401 INVALID_API_KEY"],
      [{ "Sec-WebSocket-Protocol": `bearer.${key}, bearer.${aegis}` }, "400 CONFLICTING_CREDENTIALS"],
      [{ ...bearer(aegis), "Sec-WebSocket-Protocol": `bearer.${key}` }, "400 CONFLICTING_CREDENTIALS"],
      [{ ...bearer(aegis), "x-api-key": key }, "400 CONFLICTING_CREDENTIALS"],
    ];
    for (const [headers, expected] of refused) expect(outcome(await ask(headers))).toBe(expected);
    // Elsewhere a subprotocol says nothing.
    const elsewhere = { headers: { "Sec-WebSocket-Protocol": `bearer.${aegis}` } };
    expect(outcome(await proxy.get("/api/v1/markets/historical", elsewhere))).toBe("401 API_KEY_REQUIRED");
    const answers = await Promise.all(refused.map(([headers]) => ask(headers)));
    for (const { headers, text } of answers)
      expect(found(spellingsOf([key, aegis, unknown]), JSON.stringify(headers) + text)).toEqual([]);
  });
});

describe("a handshake", () => {
  const refused: [string, Record<string, string>, string][] = [
    ["without a nonce", { "Sec-WebSocket-Key": "" }, "426 UPGRADE_REQUIRED"],
    ["with a short nonce", { "Sec-WebSocket-Key": "dGhlIHNhbXBsZQ==" }, "426 UPGRADE_REQUIRED"],
    ["with a long nonce", { "Sec-WebSocket-Key": `${"A".repeat(23)}==` }, "426 UPGRADE_REQUIRED"],
    ["of version 8", { "Sec-WebSocket-Version": "8" }, "426 UPGRADE_REQUIRED"],
    ["of version 013", { "Sec-WebSocket-Version": "013" }, "426 UPGRADE_REQUIRED"],
    ["for another protocol", { Upgrade: "h2c" }, "426 UPGRADE_REQUIRED"],
    ["for several protocols", { Upgrade: "websocket, h2c" }, "426 UPGRADE_REQUIRED"],
    ["that does not ask for an upgrade", { Connection: "close" }, "426 UPGRADE_REQUIRED"],
  ];
  test.each(refused)("%s is answered in the one error shape", async (_what, headers, expected) => {
    const answer = await ask({ ...bearer(key), ...headers });
    expect(outcome(answer)).toBe(expected);
    expect(await connections(proxy)).toBe(0);
  });

  test.each([
    "scores.v1, scores.v1",
    "scores.v1,,x",
    ",scores.v1",
    "scores.v1,",
    "scores v1",
    "scores.v1, a/b",
  ])("that offers the subprotocols %j is answered in the one error shape", async (names) => {
    const answer = await ask({ ...bearer(key), "Sec-WebSocket-Protocol": names });
    const { status } = problemOf(answer);
    expect([400, 426]).toContain(status);
    expect(await connections(proxy)).toBe(0);
    const line = await proxy.logs(String(answer.headers["x-request-id"]));
    expect(JSON.parse(line)).toMatchObject({ res: { status } });
  });

  test("that is a plain request is told what to do", async () => {
    const plain = await proxy.get(feedPath, { headers: bearer(key) });
    expect(outcome(plain)).toBe("426 UPGRADE_REQUIRED");
    // RFC 9110, 15.5.22: an answer 426 must name the protocol.
    expect(plain.headers.upgrade).toBe("websocket");
  });

  test("that offers no subprotocol or compression of ours is answered with none", async () => {
    const listener = await listenGreeted(proxy.port, key, { protocols: [], perMessageDeflate: true });
    expect(listener.socket.protocol).toBe("");
    expect(listener.socket.extensions).toBe("");
    expect(listener.headers["sec-websocket-extensions"]).toBeUndefined();
    expect(listener.headers["sec-websocket-protocol"]).toBeUndefined();
    await leave(proxy, listener);
    const other = new WebSocket(`ws://127.0.0.1:${proxy.port}${feedPath}`, ["scores.v2"], {
      headers: bearer(key),
    });
    const [error] = await once(other, "error");
    expect(String(error)).toContain("no subprotocol");
    await leave(proxy);
  });

  test("may name a snapshot and nothing else", async () => {
    const queries: [string, string][] = [
      ["?slug=aave", "slug"],
      ["?since=", "since"],
      ["?since=latest", "since"],
      [`?since=${first.toUpperCase()}`, "since"],
      [`?since=${first}&since=${first}`, "since"],
      [`?since=${first.slice(1)}`, "since"],
      [`?Since=${first}`, "Since"],
      [`?token=${key}`, "token"],
    ];
    for (const [search, parameter] of queries) {
      const problem = problemOf(await ask(bearer(key), search));
      expect([search, problem]).toEqual([
        search,
        expect.objectContaining({ status: 400, code: "INVALID_PARAMETER", parameter }),
      ]);
    }
    expect(await connections(proxy)).toBe(0);
  });

  test("carries the headers of every answer", async () => {
    const listener = await listenGreeted(proxy.port, key);
    const plain = await proxy.get("/api/v1/scores", { headers: bearer(key) });
    for (const name of [
      "x-snapshot-id",
      "x-content-type-options",
      "access-control-allow-origin",
      "x-ratelimit-limit",
    ])
      expect([name, listener.headers[name]]).toEqual([name, plain.headers[name]]);
    expect(listener.headers).toMatchObject({ connection: "Upgrade", upgrade: "websocket" });
    await leave(proxy, listener);
  });
});

describe("the quota", () => {
  const remaining = ({ headers }: Pick<Listener, "headers">) => Number(headers["x-ratelimit-remaining"]);
  const left = (of: string) => proxy.left(of);

  test("counts a connection once, whatever is told on it, and refuses the one beyond", async () => {
    const few = await proxy.issue({ owner: "few", quota: 2 });
    const one = await listenGreeted(proxy.port, few);
    expect(remaining(one)).toBe(1);
    await one.subscribe("aave");
    expect(await left(few)).toBe(1);
    const two = await listenGreeted(proxy.port, few);
    expect(remaining(two)).toBe(0);
    const third = await ask(bearer(few));
    expect(outcome(third)).toBe("429 QUOTA_EXCEEDED");
    expect(Number(third.headers["retry-after"])).toBeGreaterThan(0);
    expect(one.socket.readyState).toBe(WebSocket.OPEN);
    await leave(proxy, one, two);
  });

  test("gets back the unit of a sixth connection of one owner, by whichever key, and others have room", async () => {
    const second = await proxy.issue({ owner: "crowd", plan: "developer" });
    const crowd = await proxy.issue({ owner: "crowd", plan: "aegis" });
    const open = [await listenGreeted(proxy.port, second)];
    for (let n = 0; n < 4; n += 1) open.push(await listenGreeted(proxy.port, crowd));
    const before = [await left(crowd), await left(second)];
    for (const each of [crowd, second]) {
      const answer = await ask(bearer(each));
      expect(outcome(answer)).toBe("429 TOO_MANY_CONNECTIONS");
      expect(remaining(answer)).toBe(await left(each));
    }
    expect([await left(crowd), await left(second)]).toEqual(before);
    const other = await listenGreeted(proxy.port, aegis);
    expect(await connections(proxy)).toBe(6);
    open[0]!.socket.close();
    await until("five feed connections", async () => (await connections(proxy)) === 5);
    open.push(await listenGreeted(proxy.port, crowd));
    await leave(proxy, other, ...open);
  });

  test("lets five pass of twenty at once", async () => {
    const rush = await proxy.issue({ owner: "rush" });
    const tries = await Promise.allSettled(Array.from({ length: 20 }, () => listen(proxy.port, rush)));
    const open = tries.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(open).toHaveLength(5);
    expect(await left(rush)).toBe(100_000 - 5);
    await leave(proxy, ...open);
  });
});
