import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { layout } from "../../../snapshots/store/layout.ts";
import { found, spellingsOf } from "../../helpers/attack/canaries.ts";
import {
  connections,
  feedPath,
  handshake,
  hello,
  leave,
  listenGreeted,
  startFeedProxy,
} from "../../helpers/http/live-feed.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome, remaining, until } from "../../helpers/http/proxy-client.ts";
import { anotherOverS3 } from "../../helpers/http/proxy-served.ts";
import { bookOf, publishBook } from "../../helpers/publish/score-books.ts";

let proxy: TestProxy;
let first: string;
let key: string;
let aegis: string;
beforeAll(async () => {
  ({ proxy, first, key } = await startFeedProxy(bookOf({ aave: 500 }), { trustProxy: { hops: 1 } }));
  aegis = await proxy.issue({ owner: "other" });
});
afterAll(() => proxy.stop());

const ask = (by: string) => proxy.as(by)(feedPath, handshake);

describe("a key", () => {
  const offered = (...names: string[]) => names.map((name) => (name === "KEY" ? `bearer.${key}` : name));
  const ways: [string, headers: () => object, ...protocols: string[]][] = [
    ["in the header Authorization", () => bearer(key)],
    ["in the header x-api-key", () => ({ "x-api-key": key })],
    // As a page of another site sends it.
    ["as a subprotocol", () => ({ origin: "https://dashboard.example" }), "scores.v1", "KEY"],
    ["as the first subprotocol of several", () => ({}), "KEY", "x", "scores.v1"],
    ["in all three places", () => ({ ...bearer(key), "x-api-key": key }), "scores.v1", "KEY"],
  ];
  test.each(ways)("is taken %s, and left in no answer and no log", async (_way, headersOf, ...names) => {
    const spellings = spellingsOf([key]);
    const headers = { ...headersOf() };
    const choices = names.length > 0 ? { headers, protocols: offered(...names) } : { headers };
    const listener = await listenGreeted(proxy.port, key, choices);
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
});

test("a handshake that offers no subprotocol or compression of ours is answered with none", async () => {
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

describe("the quota", () => {
  test("counts a connection once, whatever is told on it, and refuses the one beyond", async () => {
    const few = await proxy.issue({ owner: "few", quota: 2 });
    const one = await listenGreeted(proxy.port, few);
    expect(remaining(one)).toBe(1);
    await one.subscribe("aave");
    expect(await proxy.left(few)).toBe(1);
    const two = await listenGreeted(proxy.port, few);
    expect(remaining(two)).toBe(0);
    const third = await ask(few);
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
    const before = [await proxy.left(crowd), await proxy.left(second)];
    for (const each of [crowd, second]) {
      const answer = await ask(each);
      expect(outcome(answer)).toBe("429 TOO_MANY_CONNECTIONS");
      expect(remaining(answer)).toBe(await proxy.left(each));
    }
    expect([await proxy.left(crowd), await proxy.left(second)]).toEqual(before);
    const other = await listenGreeted(proxy.port, aegis);
    expect(await connections(proxy)).toBe(6);
    open[0]!.socket.close();
    await until("five feed connections", async () => (await connections(proxy)) === 5);
    open.push(await listenGreeted(proxy.port, crowd));
    await leave(proxy, other, ...open);
  });

  test("gets back the unit of a key that ends before the feed begins", async () => {
    const own = await startFeedProxy(bookOf({ aave: 500 }));
    onTestFinished(own.proxy.stop);
    await publishBook(own.proxy.storage, bookOf({ aave: 501 }));
    // The log is read back to the first commit, which waits until the key has ended.
    const ended = Promise.withResolvers<undefined>();
    const another = await anotherOverS3(own.proxy, (_, name) =>
      name === layout.commit(1) ? ended.promise : undefined,
    );
    const expiresAt = new Date(another.clock.now + 60_000);
    const brief = await another.issue({ expiresAt });
    const lasting = await another.issue();
    const refused = another.as(brief)(`${feedPath}?since=${own.first}`, handshake);
    await until("its unit to be taken", async () => (await another.left(lasting)) === 99_999);
    another.clock.now = expiresAt.getTime();
    ended.resolve(undefined);
    expect(outcome(await refused)).toBe("401 INVALID_API_KEY");
    expect(await another.left(lasting)).toBe(100_000);
  });
});
