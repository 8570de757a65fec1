import { Agent } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FaultyOrigin, good, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, call, open, outcome, until } from "../../helpers/http/proxy-client.ts";

const list = "/api/v1/scores";
const archive = "/api/v1/markets/historical?pageSize=500";

let proxy: TestProxy;
let origin: FaultyOrigin;
beforeEach(async () => {
  origin = await startOriginOf(() => proxy.storage);
  proxy = await startTestProxy({ publicOrigin: origin.url, markets: 500, shutdownSeconds: 60 });
});
afterEach(async () => {
  await origin.stop();
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

  test("finishes an answer that is under way, and says on it that the connection ends", async () => {
    let release = () => {};
    origin.behave = (socket, body, target) => {
      release = () => good(socket, body, target);
    };
    const answer = proxy.get(list, { agent: new Agent({ keepAlive: true }) });
    await until("the origin to get a request", () => origin.requests.length === 1);
    const stopped = proxy.stop();
    await until("new connections to be refused", () =>
      call(proxy.port, "/healthz").then(
        () => false,
        () => true,
      ),
    );
    release();
    expect([(await answer).status, (await answer).headers.connection]).toEqual([200, "close"]);
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
