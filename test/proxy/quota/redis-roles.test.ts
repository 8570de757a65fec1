import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome, until } from "../../helpers/http/proxy-client.ts";
import { findRedis, startRelay, type TestRedis, testRedis } from "../../helpers/servers/redis.ts";

const [list, usage] = ["/api/v1/scores", "/api/v1/usage"];
const program = findRedis();

describe.skipIf(!program)("a Redis server that takes no counts", () => {
  let redis: TestRedis;
  let ends: (() => Promise<void> | void)[];
  const start = async () => {
    const server = await testRedis(program!);
    await server.start();
    ends.push(() => server.stop());
    return server;
  };
  beforeEach(async () => {
    ends = [];
    redis = await start();
  });
  afterEach(async () => {
    for (const end of ends.reverse()) await end();
  });

  async function serve(quotaStore: string): Promise<TestProxy> {
    const proxy = await startTestProxy({ quotaStore, quotaOnFailure: "closed" });
    ends.push(() => proxy.stop());
    return proxy;
  }
  const demote = (port: number) => redis.run("REPLICAOF", "127.0.0.1", String(port));

  test("as a replica after a failover is left for the primary that is behind its address now", async () => {
    const relay = await startRelay(redis.port);
    ends.push(() => relay.stop());
    const proxy = await serve(relay.url);
    expect(outcome(await proxy.get(list))).toBe("200");
    const primary = await start();
    relay.turn(primary.port);
    await demote(primary.port);
    await until("units to be taken again", async () => outcome(await proxy.get(list)) === "200");
    expect(Number(await primary.run("DBSIZE"))).toBeGreaterThan(0);
  });

  test.each([
    ["a replica", () => demote(1)],
    ["full", () => redis.run("CONFIG", "SET", "maxmemory", "1")],
  ])("since it is %s is not called well because it can be read", async (_, begin) => {
    const proxy = await serve(redis.url);
    const key = await proxy.issue();
    expect(outcome(await proxy.get(list))).toBe("200");
    await begin();
    expect(outcome(await proxy.get(list))).toBe("503 QUOTA_UNAVAILABLE");
    for (let times = 0; times < 5; times += 1) {
      await proxy.get(usage, { headers: bearer(key) });
      expect(outcome(await proxy.get("/readyz"))).toBe("503 QUOTA_UNAVAILABLE");
    }
    expect(proxy.logged.filter((line) => line.includes("answers again"))).toEqual([]);
    await redis.run("REPLICAOF", "NO", "ONE");
    await redis.run("CONFIG", "SET", "maxmemory", "0");
    await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
    expect(outcome(await proxy.get(list))).toBe("200");
  });
});
