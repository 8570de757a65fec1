import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Config } from "../../../proxy/config.ts";
import { redisQuota } from "../../../proxy/quota/redis.ts";
import { issueKey } from "../../../snapshots/keys/records.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { patient, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, call, outcome } from "../../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand } from "../../helpers/http/proxy-command.ts";
import { publishArchive } from "../../helpers/publish/records.ts";
import { findRedis, type TestRedis, testRedis } from "../../helpers/servers/redis.ts";

const list = "/api/v1/scores";
const program = findRedis();
// Redis forgets a day by its own clock; this one it will not see.
const noon = Date.parse("2100-03-01T12:00:00.000Z");
const remaining = (answer: Answer) => Number(answer.headers["x-ratelimit-remaining"]);

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

  /** Two proxies over one store and one Redis. */
  async function startTwo(changes: Partial<Config> = {}): Promise<[TestProxy, TestProxy]> {
    const one = await startTestProxy({ quotaStore: redis.url, ...changes });
    ends.push(() => one.stop());
    const two = await one.another();
    ends.push(() => two.stop());
    one.clock.now = two.clock.now = noon;
    return [one, two];
  }

  /** A key that both proxies know. */
  async function issue(one: TestProxy, two: TestProxy, request: Parameters<TestProxy["issue"]>[0]) {
    const key = await one.issue(request);
    await two.accepts(key);
    return key;
  }

  test("of 200 at once through two proxies with 100 left exactly 100 pass", async () => {
    const [one, two] = await startTwo();
    const key = await issue(one, two, { quota: 110 });
    for (let count = 0; count < 10; count += 1) await one.get(list, { headers: bearer(key) });
    const calls = Array.from({ length: 200 }, (_, index) =>
      (index % 2 ? one : two).get(list, { headers: bearer(key) }),
    );
    const answers = await Promise.all(calls);
    const passed = answers.filter(({ status }) => status === 200);
    // Each unit was told to be the last but so many exactly once.
    expect(passed.map(remaining).sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map((answer) => `${outcome(answer)} ${remaining(answer)}`))).toEqual(
      new Set(["429 QUOTA_EXCEEDED 0"]),
    );
    const usage = await two.get("/api/v1/usage", { headers: bearer(key) });
    expect(usage.json()).toMatchObject({ limit: 110, remaining: 0 });
  });

  test("two keys of one owner at two proxies share a counter; 304 gives back at the one that took", async () => {
    const [one, two] = await startTwo();
    const [big, small] = [await issue(one, two, { quota: 10 }), await issue(one, two, { quota: 3 })];
    expect(remaining(await one.get(list, { headers: bearer(big) }))).toBe(9);
    const second = await two.get(list, { headers: bearer(big) });
    expect(remaining(second)).toBe(8);
    const headers = { ...bearer(big), "if-none-match": String(second.headers.etag) };
    const held = await two.get(list, { headers });
    expect([held.status, remaining(held)]).toEqual([304, 8]);
    expect(remaining(await two.get(list, { headers: bearer(small) }))).toBe(0);
    expect(outcome(await one.get(list, { headers: bearer(small) }))).toBe("429 QUOTA_EXCEEDED");
    expect(remaining(await one.get(list, { headers: bearer(big) }))).toBe(6);
  });

  test("the day is UTC's at both: a new one at midnight, the old one for a clock that is behind", async () => {
    const [one, two] = await startTwo();
    one.clock.now = two.clock.now = Date.parse("2100-03-01T23:59:59.999Z");
    expect(remaining(await one.get(list))).toBe(999);
    one.clock.now += 1;
    const first = await one.get(list);
    expect([remaining(first), first.headers["x-ratelimit-reset"]]).toEqual([
      999,
      String(Date.parse("2100-03-03") / 1000),
    ]);
    expect(remaining(await two.get(list))).toBe(998);
    two.clock.now += 1;
    expect(remaining(await two.get(list))).toBe(998);
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

  test("what an account is called reaches Redis as it is", async () => {
    const [one, two] = await startTwo();
    const key = await issue(one, two, { owner: "a b*[x]:{y}\"'é", quota: 5 });
    await one.get(list, { headers: bearer(key) });
    expect(remaining(await two.get(list, { headers: bearer(key) }))).toBe(3);
    expect(await redis.run("DBSIZE")).toBe(1);
  });

  test("counters survive kill -9 of the proxies, and of Redis", async () => {
    const directory = await mkdtemp(join(tmpdir(), "prs-redis-proxies-"));
    ends.push(() => rm(directory, { recursive: true, force: true }));
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
