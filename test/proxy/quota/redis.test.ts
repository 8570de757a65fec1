import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseRedisUrl, redisQuota } from "../../../proxy/quota/redis.ts";
import { issueKey } from "../../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { patient } from "../../helpers/http/proxy.ts";
import { bearer, call } from "../../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand } from "../../helpers/http/proxy-command.ts";
import { publishArchive } from "../../helpers/publish/records.ts";
import { findRedis, type TestRedis, testRedis } from "../../helpers/servers/redis.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const list = "/api/v1/scores";
const directory = testFolder();
const program = findRedis();

describe.skipIf(!program)("QUOTA_STORE=redis://…", () => {
  let redis: TestRedis;
  let ends: (() => Promise<void>)[];
  beforeEach(async () => {
    redis = await testRedis(program!);
    await redis.start();
    ends = [() => redis.stop()];
  });
  afterEach(async () => {
    for (const end of ends.reverse()) await end();
  });

  test("a counter vanishes two days after its first unit, whatever the proxy's clock says", async () => {
    const store = await redisQuota(redis.url, patient.quotaSeconds, (error) => expect.fail(error.message));
    ends.push(async () => store.close());
    for (const day of ["1970-01-02", "2100-03-01"]) {
      await store.take("a", day, 2, 9);
      const name = `prs:quota:${day}:a`;
      const end = Number(await redis.run("PEXPIRETIME", name));
      await store.take("a", day, 1, 9);
      await store.giveBack("a", day, 1);
      expect(Number(await redis.run("PEXPIRETIME", name))).toBe(end);
      const [seconds, microseconds] = (await redis.run("TIME")) as [string, string];
      const ahead = end - (Number(seconds) * 1000 + Number(microseconds) / 1000);
      expect(ahead).toBeLessThanOrEqual(2 * 86_400_000);
      expect(ahead).toBeGreaterThan(2 * 86_400_000 - 110_000);
      expect(await store.used("a", day)).toBe(2);
    }
  });

  test("counters survive kill -9 of the proxies, and of Redis", async () => {
    const storage = directoryStorage(join(directory, "store"));
    await publishArchive(storage);
    const { key } = await issueKey(storage, { plan: "aegis", owner: "acme", quota: 30 }, new Date());
    let proxies: ProxyCommand[] = [];
    const start = () => {
      proxies = [1, 2].map(() => startProxyCommand(directory, { QUOTA_STORE: redis.url }));
      return Promise.all(proxies.map((proxy) => proxy.listening()));
    };
    const killAll = async () => void (await Promise.all(proxies.map((proxy) => proxy.kill())));
    ends.push(killAll);
    const usages = (ports: number[]) =>
      Promise.all(ports.map((port) => call(port, "/api/v1/usage", { headers: bearer(key) })));
    const left = async (ports: number[]) =>
      (await usages(ports)).map(({ text }) => JSON.parse(text).remaining);

    const first = await start();
    const calls = Array.from({ length: 20 }, (_, n) => call(first[n % 2]!, list, { headers: bearer(key) }));
    const passed = (await Promise.all(calls)).filter(({ status }) => status === 200);
    expect(passed).toHaveLength(20);
    expect(await left(first)).toEqual([10, 10]);
    await killAll();
    await redis.kill();
    await redis.start();
    expect(await left(await start())).toEqual([10, 10]);
  });
});

test("a unit whose connection is lost before it is counted is refused then, and the loss is told", async () => {
  const again = Promise.withResolvers<string>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    if (connections > 1) again.resolve("not refused before the next connection");
    socket.on("data", (bytes) => {
      for (const command of bytes
        .toString("latin1")
        .split(/^\*\d+\r\n/m)
        .slice(1))
        if (command.includes("eval")) socket.resetAndDestroy();
        else socket.write(/hello/i.test(command) ? "-NOPROTO\r\n" : "+OK\r\n");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const failed: string[] = [];
  const url = `redis://127.0.0.1:${port}`;
  const store = await redisQuota(url, patient.quotaSeconds, ({ message }) => failed.push(message));
  const taken = store.take("a", "2026-03-01", 1, 9).then(String, ({ message }: Error) => message);
  expect(await Promise.race([taken, again.promise])).toContain("max retries per request");
  expect(failed).toEqual(["Redis: read ECONNRESET"]);
  store.close();
  server.close();
});

const nothing = { username: "", password: "", name: "", db: 0, sentinelUsername: "", sentinelPassword: "" };
const node = (host: string, port: number) => ({ host, port });

test.each([
  ["rediss://:s@h/1", { mode: "redis", tls: true, nodes: [node("h", 6379)], password: "s" }],
  [
    "redis+sentinel://a,b:1,[::1]:2/primary",
    { mode: "sentinel", nodes: [node("a", 26_379), node("b", 1), node("::1", 2)], name: "primary" },
  ],
  [
    "rediss+sentinel://u:%40%2F:x@a/my%20primary/3?sentinel_username=s&sentinel_password=%26",
    {
      ...{ mode: "sentinel", tls: true, nodes: [node("a", 26_379)], name: "my primary", db: 3 },
      ...{ username: "u", password: "@/:x", sentinelUsername: "s", sentinelPassword: "&" },
    },
  ],
  ["redis+sentinel://a/p?sentinel_password=x", { mode: "sentinel", name: "p", sentinelPassword: "x" }],
  [
    "redis+cluster://u:p@a,b:7/0",
    { mode: "cluster", nodes: [node("a", 6379), node("b", 7)], username: "u", password: "p" },
  ],
])("%s", (url, expected) => {
  const nodes = [node("a", 26_379)];
  expect(parseRedisUrl(url)).toEqual({ ...nothing, tls: false, nodes, ...expected, url });
});
