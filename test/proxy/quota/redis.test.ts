import { createServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { FailurePolicy } from "../../../proxy/quota/quota.ts";
import { parseRedisUrl, redisQuota } from "../../../proxy/quota/redis.ts";
import { patient, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, outcome, remaining, until } from "../../helpers/http/proxy-client.ts";
import { serveLocally } from "../../helpers/servers/programs.ts";
import { findRedis, startRelay, testRedis } from "../../helpers/servers/redis.ts";

const [list, usagePath] = ["/api/v1/scores", "/api/v1/usage"];
const program = findRedis();
const noon = Date.parse("2100-03-01T12:00:00.000Z");

/** `200 4`: the outcome and what is left, once both families of headers tell the same, or nothing. */
function told(answer: Answer): string {
  const { headers } = answer;
  const left = headers["x-ratelimit-remaining"];
  expect(headers.ratelimit?.toString().match(/;r=(\d+);/)?.[1]).toBe(left);
  expect(Number(left ?? 0)).toBeLessThanOrEqual(Number(headers["x-ratelimit-limit"] ?? 0));
  return `${outcome(answer)} ${left ?? "-"}`;
}

const limit = 5;

/** A Redis of a test's own, a way to it that can be lost, and proxies that count there. */
async function startCounting(password?: string) {
  const redis = await testRedis(program!, password);
  await redis.start();
  const relay = await startRelay(redis.port);
  const proxies: TestProxy[] = [];
  return {
    redis,
    relay,
    async serve(quotaOnFailure: FailurePolicy, quotaStore = relay.url): Promise<TestProxy> {
      // What is lost or frozen is given up soon.
      const proxy = await startTestProxy({ quotaStore, quotaOnFailure, limits: { quotaSeconds: 1 } });
      proxies.push(proxy);
      proxy.clock.now = noon;
      return proxy;
    },
    async [Symbol.asyncDispose]() {
      for (const proxy of proxies) await proxy.stop();
      await relay.stop();
      await redis.stop();
    },
  };
}
type Counting = Awaited<ReturnType<typeof startCounting>>;

const ask = (proxy: TestProxy, key: string) => proxy.as(key)(list);
const atOnce = (proxy: TestProxy, key: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => ask(proxy, key)));

/** What 30 requests of a limit of 5 are answered while nobody counts together, and what /usage says then. */
const expected: Record<FailurePolicy, { answers: string[]; usage: string; readyz: string }> = {
  local: {
    answers: [
      ...["200 4", "200 3", "200 2", "200 1", "200 0"],
      ...Array.from({ length: 25 }, () => "429 QUOTA_EXCEEDED 0"),
    ],
    usage: "200 0",
    readyz: "200",
  },
  open: { answers: Array.from({ length: 30 }, () => "200 5"), usage: "200 5", readyz: "200" },
  closed: {
    answers: Array.from({ length: 30 }, () => "503 QUOTA_UNAVAILABLE -"),
    usage: "503 QUOTA_UNAVAILABLE",
    readyz: "503 QUOTA_UNAVAILABLE",
  },
};

const failures = {
  "killed and started": {
    begin: ({ redis }: Counting) => redis.kill(),
    end: ({ redis }: Counting) => redis.start(),
  },
  "frozen and thawed": {
    begin: ({ redis }: Counting) => redis.freeze(),
    end: ({ redis }: Counting) => redis.thaw(),
  },
  "lost in silence": { begin: ({ relay }: Counting) => relay.lose(), end: () => {} },
};
/** Every policy and every failure; which failure it is makes no difference to what a policy answers. */
const cases: [FailurePolicy, keyof typeof failures][] = [
  ["local", "lost in silence"],
  ["open", "killed and started"],
  ["closed", "frozen and thawed"],
];

// Most of the time they wait for deadlines and for attempts to connect.
describe.skipIf(!program).concurrent("QUOTA_ON_FAILURE with Redis", () => {
  test.each(cases)("%s: right answers while it is %s, and after", async (policy, failure) => {
    await using counting = await startCounting();
    const { relay, serve } = counting;
    const proxy = await serve(policy);
    const key = await proxy.issue({ quota: limit });
    const usage = () => proxy.as(key)(usagePath);
    const ready = () => proxy.get("/readyz");
    expect([told(await ask(proxy, key)), told(await ask(proxy, key))]).toEqual(["200 4", "200 3"]);
    expect((await ready()).json().quotaStore).toBe("ok");

    await failures[failure].begin(counting);
    // The first ones wait for the deadline together.
    const first = await atOnce(proxy, key, 10);
    const before = relay.scripts();
    const answers = [...first, ...(await atOnce(proxy, key, 20))].map(told);
    expect(answers.sort()).toEqual([...expected[policy].answers].sort());
    expect(proxy.logged.filter((line) => line.includes("the quota store failed"))).toHaveLength(1);
    // Those that follow find the way closed, except for one a second that tries it: more than one on a slow machine.
    expect(relay.scripts() - before).toBeLessThan(10);

    if (failure !== "lost in silence") {
      const during = await usage();
      const told = during.status === 200 ? `200 ${during.json().remaining}` : outcome(during);
      expect(told).toBe(expected[policy].usage);
      expect(outcome(await ready())).toBe(expected[policy].readyz);
    }
    await failures[failure].end(counting);
    // Nothing but the look of a load balancer is needed for it to be found again.
    await until("the quota store to be back", async () => {
      const answer = await ready();
      return answer.status === 200 && answer.json().quotaStore === "ok";
    });
    const left = (await usage()).json().remaining;
    // What was sent before it froze is counted late; what found the way closed is not.
    expect(left).toBeLessThanOrEqual(3);
    expect(left).toBeGreaterThanOrEqual(failure === "frozen and thawed" ? 0 : 3);
    if (left > 0) expect(remaining(await ask(proxy, key))).toBe(left - 1);
    expect(proxy.logged.filter((line) => line.includes("answers again"))).toHaveLength(1);
  });

  test.each([
    ["local", "200 999"],
    ["closed", "503 QUOTA_UNAVAILABLE -"],
  ] as const)("%s: a proxy that starts without it answers, and finds it later", async (policy, answer) => {
    await using counting = await startCounting();
    const { redis, relay, serve } = counting;
    await redis.kill();
    const proxy = await serve(policy);
    // Before any request it is known that there is no server.
    const ready = policy === "closed" ? "503 QUOTA_UNAVAILABLE" : "200";
    expect(outcome(await proxy.get("/readyz"))).toBe(ready);
    expect(told(await proxy.get(list))).toBe(answer);
    await until("five attempts to connect", () => relay.connections() >= 5);
    const warnings = proxy.logged.filter((line) => line.includes("no connection to the quota store"));
    expect(warnings).toHaveLength(1);
    await redis.start();
    await until(
      "the quota store to be back",
      async () => (await proxy.get("/readyz")).json().quotaStore === "ok",
    );
    expect(told(await proxy.get(list))).toBe("200 999");
    expect(await redis.run("KEYS", "prs:quota:*:free:*")).toHaveLength(1);
  });

  test("the right password is used, a wrong one refuses as policy says, and neither they nor the address are shown", async () => {
    await using counting = await startCounting("the-right-one");
    const wrong = "wr0ng-s3cret";
    const url = `redis://someone:${wrong}@127.0.0.1:${counting.redis.port}/0`;
    const refusing = await counting.serve("closed", url);
    const answers = [await refusing.get(list), await refusing.get(usagePath), await refusing.get("/readyz")];
    expect(told(answers[0]!)).toBe("503 QUOTA_UNAVAILABLE -");
    const log = refusing.logged.join("");
    const shown = [log, ...answers.map(({ text, headers }) => text + JSON.stringify(headers))].join("");
    expect(log).toContain("WRONGPASS");
    for (const secret of [wrong, "the-right-one", "someone", url]) expect(shown).not.toContain(secret);
    const proxy = await counting.serve("closed", counting.redis.url);
    expect(told(await proxy.get(list))).toBe("200 999");
    expect(proxy.logged.join("")).not.toContain("the-right-one");
  });

  test("a replica after a failover is left for the primary that is behind its address now", async () => {
    await using counting = await startCounting();
    const { redis, relay, serve } = counting;
    const proxy = await serve("closed");
    expect(outcome(await proxy.get(list))).toBe("200");
    const primary = await testRedis(program!);
    await primary.start();
    relay.turn(primary.port);
    await redis.run("REPLICAOF", "127.0.0.1", String(primary.port));
    await until("units to be taken again", async () => outcome(await proxy.get(list)) === "200");
    expect(Number(await primary.run("DBSIZE"))).toBeGreaterThan(0);
    await primary.stop();
  });

  test.each([
    ["a replica", ["REPLICAOF", "127.0.0.1", "1"]],
    ["full", ["CONFIG", "SET", "maxmemory", "1"]],
  ] as [string, [string, ...string[]]][])(
    "a server that is %s is not called well because it can be read",
    async (_, begin) => {
      await using counting = await startCounting();
      const { redis, serve } = counting;
      const proxy = await serve("closed");
      const key = await proxy.issue();
      expect(outcome(await proxy.get(list))).toBe("200");
      await redis.run(...begin);
      expect(outcome(await proxy.get(list))).toBe("503 QUOTA_UNAVAILABLE");
      for (let times = 0; times < 5; times += 1) {
        await proxy.as(key)(usagePath);
        expect(outcome(await proxy.get("/readyz"))).toBe("503 QUOTA_UNAVAILABLE");
      }
      expect(proxy.logged.filter((line) => line.includes("answers again"))).toEqual([]);
      await redis.run("REPLICAOF", "NO", "ONE");
      await redis.run("CONFIG", "SET", "maxmemory", "0");
      await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
      expect(outcome(await proxy.get(list))).toBe("200");
    },
  );
});

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
