import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { redisQuota } from "../../../proxy/quota/redis.ts";
import { issueKey } from "../../../snapshots/keys/records.ts";
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
