import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { parseRedisUrl, redisQuota } from "../../../proxy/quota/redis.ts";
import { patient } from "../../helpers/http/proxy.ts";
import { serveLocally } from "../../helpers/servers/programs.ts";
import { findRedis, testRedis } from "../../helpers/servers/redis.ts";

const program = findRedis();

test.skipIf(!program)(
  "a counter in Redis vanishes two days after its first unit, whatever the proxy's clock says",
  async () => {
    const redis = await testRedis(program!);
    onTestFinished(() => redis.stop());
    await redis.start();
    const store = await redisQuota(redis.url, patient.quotaSeconds, (error) => expect.fail(error.message));
    onTestFinished(() => store.close());
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
  },
);

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
  const { port, stop } = await serveLocally(server);
  const failed: string[] = [];
  const url = `redis://127.0.0.1:${port}`;
  const store = await redisQuota(url, patient.quotaSeconds, ({ message }) => failed.push(message));
  const taken = store.take("a", "2026-03-01", 1, 9).then(String, ({ message }: Error) => message);
  expect(await Promise.race([taken, again.promise])).toContain("max retries per request");
  expect(failed).toEqual(["Redis: read ECONNRESET"]);
  store.close();
  await stop();
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
