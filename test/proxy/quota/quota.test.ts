import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent } from "node:http";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { clientAccount } from "../../../proxy/access/identity.ts";
import { freeAccounts, type QuotaStore, sqliteQuota, threadedQuota } from "../../../proxy/quota/counters.ts";
import { createQuota, type FailurePolicy, secondsUntil } from "../../../proxy/quota/quota.ts";
import { redisQuota } from "../../../proxy/quota/redis.ts";
import { patient } from "../../helpers/http/proxy.ts";
import { outcome, remaining } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { bytesInUse } from "../../helpers/servers/memory.ts";
import { findRedis, testRedis } from "../../helpers/servers/redis.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

const list = "/api/v1/scores";

describe("over HTTP", () => {
  const proxy = serveTestProxy({ trustProxy: { hops: 1 } });
  /** As an address of which each test has its own. */
  const as = (address: string) => ({ headers: { "x-forwarded-for": address } });

  test("of 200 at once with 100 left exactly 100 pass", async () => {
    const key = await proxy.issue({ quota: 100 });
    const calls = Array.from({ length: 200 }, () => proxy.as(key)(list));
    const outcomes = (await Promise.all(calls)).map(outcome);
    expect(outcomes.filter((one) => one === "200")).toHaveLength(100);
    expect(outcomes.filter((one) => one === "429 QUOTA_EXCEEDED")).toHaveLength(100);
  });

  test("every metered answer tells limit, remaining and reset, in both families of headers", async () => {
    const address = as("192.0.2.2");
    const { headers } = await proxy.get(list, address);
    expect(headers).toMatchObject({
      "x-ratelimit-limit": "1000",
      "x-ratelimit-remaining": "999",
      "x-ratelimit-reset": String(Date.parse("2026-03-02T00:00:00Z") / 1000),
      "ratelimit-policy": '"free";q=1000;w=86400',
      ratelimit: '"free";r=999;t=43200',
    });
    expect(remaining(await proxy.get("/api/v1/scores/unknown", address))).toBe(998);
    expect(remaining(await proxy.get(`${list}?x=1`, address))).toBe(997);
    expect(remaining(await proxy.get(list, { method: "HEAD", ...address }))).toBe(996);
    // NOT_FOUND costs nothing where an address exists and its answer does not, either.
    const proof = { headers: { ...address.headers, accept: "text/plain" } };
    const missing = await proxy.get("/api/v1/scores/aave/proof", proof);
    expect([outcome(missing), remaining(missing)]).toEqual(["404 NOT_FOUND", 996]);
  });

  test("keys of one owner and plan share a counter, each against its own limit", async () => {
    const owner = "shares";
    const [big, small] = [await proxy.issue({ owner, quota: 10 }), await proxy.issue({ owner, quota: 3 })];
    const otherOwner = await proxy.issue({ owner: "other", quota: 3 });
    const otherPlan = await proxy.issue({ plan: "developer", owner, quota: 3 });
    for (let count = 0; count < 3; count += 1) await proxy.as(big)(list);
    expect(outcome(await proxy.as(small)(list))).toBe("429 QUOTA_EXCEEDED");
    expect(remaining(await proxy.as(big)(list))).toBe(6);
    for (const other of [otherOwner, otherPlan]) expect(remaining(await proxy.as(other)(list))).toBe(2);
  });

  test("the day is UTC's: a new one at midnight, the old one when the clock is set back", async () => {
    const address = as("192.0.2.3");
    await proxy.get(list, address);
    proxy.clock.now = Date.parse("2026-03-01T23:59:59.900Z");
    const last = await proxy.get(list, address);
    expect([remaining(last), last.headers.ratelimit]).toEqual([998, '"free";r=998;t=1']);
    proxy.clock.now = Date.parse("2026-03-02T00:00:00.000Z");
    expect(remaining(await proxy.get(list, address))).toBe(999);
    proxy.clock.now -= 3_600_000;
    expect(remaining(await proxy.get(list, address))).toBe(997);
  });

  test("without TRUST_PROXY a claimed address changes nothing, and one warning names the variable", async () => {
    await using wary = await proxy.another({ trustProxy: undefined });
    for (let count = 0; count < 3; count += 1) await wary.get(list, as(`192.0.2.${count}`));
    expect(remaining(await wary.get(list))).toBe(996);
    const agent = new Agent({ localAddress: "127.0.1.1" });
    expect(remaining(await wary.get(list, { agent }))).toBe(999);
    agent.destroy();
    expect(wary.logged.filter((line) => line.includes("TRUST_PROXY"))).toHaveLength(1);
  });
});

describe("createQuota(store, options) while the store fails", () => {
  const caller = { plan: "free", account: "free:192.0.2.1", limit: 2 } as const;
  const broken: QuotaStore = {
    take: () => Promise.reject(new Error("down")),
    giveBack: () => Promise.reject(new Error("down")),
    used: () => Promise.reject(new Error("down")),
    keeping: async () => ({ store: "redis", replica: "unknown" }),
    close() {},
  };
  let told: string[];
  beforeEach(() => {
    told = [];
  });
  /** A quota over the broken store with some of it working. */
  function quotaOver(working: Partial<QuotaStore> = {}, onFailure: FailurePolicy = "closed") {
    const [failed, recovered] = ["failed", "recovered"].map((what) => () => void told.push(what));
    const options = { now: () => 0, onFailure, failed: failed!, recovered: recovered! };
    const quota = createQuota({ ...broken, ...working }, options);
    onTestFinished(() => quota.close());
    return quota;
  }

  test("local gives back what it counted", async () => {
    const quota = quotaOver({}, "local");
    const first = await quota.take(caller, 2);
    await first.giveBack();
    expect(await quota.take(caller, 2)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("closed refuses those whose part of it fails; when their counters have moved it is whole again", async () => {
    const [lost, kept] = ["a", "b"].map((account) => ({ ...caller, account }));
    let home = "first";
    const quota = quotaOver({
      partOf: (account) => (account === "a" ? home : "second"),
      take: async (account) =>
        account === "a" && home === "first" ? broken.take("", "", 1, 1) : { allowed: true, used: 1 },
    });
    for (let times = 0; times < 10; times += 1) {
      await expect(quota.take(lost!, 1)).rejects.toMatchObject({ code: "QUOTA_UNAVAILABLE" });
      expect((await quota.take(kept!, 1)).allowed).toBe(true);
      expect([await quota.ready(), quota.failing()]).toEqual([true, true]);
    }
    home = "third";
    expect([await quota.ready(), quota.failing(), told]).toEqual([true, false, ["failed", "recovered"]]);
    expect((await quota.take(lost!, 1)).allowed).toBe(true);
  });

  test("who has used more than a limit that was lowered has none left, and no fewer", async () => {
    const quota = quotaOver({ take: async () => ({ allowed: false, used: 5 }), used: async () => 5 });
    expect(await quota.take(caller, 1)).toMatchObject({ allowed: false, remaining: 0 });
    expect(await quota.standing(caller)).toEqual({ limit: 2, remaining: 0, resetAt: 86_400_000 });
  });
});

test("a moment is told in whole seconds from now, at least one", () => {
  expect([5000, 5999, 6000, 6001].map((moment) => secondsUntil(moment, 5000))).toEqual([1, 1, 1, 2]);
});

const redisServer = findRedis();
// Redis deletes what is past its time at once.
const day = "2100-01-01";

const threaded = (file = join(folder, randomUUID()), seconds = patient.quotaSeconds) =>
  threadedQuota(file, seconds, patient.quotaOpenSeconds);

/** By kind of store what prepares one, and then opens connections to it. */
const places: [string, boolean, () => Promise<() => Promise<QuotaStore>>][] = [
  [
    "threadedQuota(file)",
    true,
    async () => {
      const file = join(folder, randomUUID(), "new", "quota.sqlite");
      return () => threaded(file);
    },
  ],
  [
    "redisQuota(url)",
    redisServer !== undefined,
    async () => {
      const server = await testRedis(redisServer!);
      onTestFinished(() => server.stop());
      await server.start();
      const failed = (error: Error) => expect.fail(error.message);
      return () => redisQuota(server.url, patient.quotaSeconds, failed);
    },
  ],
];

describe.each(places)("%s", (_name, installed, prepare) => {
  let [one, two]: QuotaStore[] = [];
  beforeEach(async () => {
    if (!installed) return;
    const open = await prepare();
    [one, two] = [await open(), await open()];
    for (const store of [one, two]) onTestFinished(() => store.close());
  });
  const testIt = test.skipIf(!installed);

  testIt("never passes the limit, also with several units, and never falls below nothing", async () => {
    expect(await one!.take("a", day, 5, 4)).toEqual({ allowed: false, used: 0 });
    expect(await one!.take("a", day, 3, 4)).toEqual({ allowed: true, used: 3 });
    expect(await one!.take("a", day, 2, 4)).toEqual({ allowed: false, used: 3 });
    await one!.giveBack("a", day, 9);
    await one!.giveBack("unknown", day, 1);
    expect([await one!.used("a", day), await one!.used("unknown", day)]).toEqual([0, 0]);
    expect(await one!.take("a", day, 4, 4)).toEqual({ allowed: true, used: 4 });
    // A limit that was lowered.
    expect(await one!.take("a", day, 1, 3)).toEqual({ allowed: false, used: 4 });
  });

  testIt("says what was used; each account and day has its own counter", async () => {
    await one!.take("a", day, 3, 4);
    await one!.take("a", "2100-01-02", 2, 4);
    expect(await one!.take("b", day, 1, 4)).toEqual({ allowed: true, used: 1 });
    expect(await one!.used("a", day)).toBe(3);
    expect(await one!.used("a", "2100-01-02")).toBe(2);
    expect(await one!.used("free:2001:db8:1:2::/64", day)).toBe(0);
    // What an account is called is kept as it is.
    for (const odd of ["a b*[x]:{y}\"'é", "a b*[x]:{y}\"'", "A"]) {
      expect(await one!.take(odd, day, 1, 4)).toEqual({ allowed: true, used: 1 });
      expect(await two!.take(odd, day, 1, 4)).toEqual({ allowed: true, used: 2 });
    }
  });

  testIt("two connections count together", async () => {
    const takes = Array.from({ length: 40 }, (_, index) => (index % 2 ? one : two)!.take("a", day, 1, 25));
    expect((await Promise.all(takes)).filter(({ allowed }) => allowed)).toHaveLength(25);
    await two!.giveBack("a", day, 2);
    expect(await one!.used("a", day)).toBe(23);
  });
});

describe("a quota file that another process has locked", () => {
  const locking = `
    const { DatabaseSync } = require("node:sqlite");
    new DatabaseSync(process.argv[1]).exec("BEGIN EXCLUSIVE");
    process.stdout.write("locked");
    process.stdin.resume();`;

  async function lock(file: string): Promise<() => Promise<void>> {
    const child = spawn(process.execPath, ["-e", locking, file], { stdio: ["pipe", "pipe", "inherit"] });
    await once(child.stdout, "data");
    return async () => {
      child.kill("SIGKILL");
      await once(child, "close");
    };
  }

  test("keeps nobody waiting but those who are counted, and these no longer than the deadline", async () => {
    const file = join(folder, randomUUID());
    const [store, hurried] = [await threaded(file), await threaded(file, 0.05)];
    const unlock = await lock(file);
    let refused: Error | undefined;
    store.take("a", day, 1, 9).catch((error) => {
      refused = error;
    });
    let turns = 0;
    for (; !refused; turns += 1) await new Promise(setImmediate);
    expect(refused.message).toContain("locked");
    // Half a second of them.
    expect(turns).toBeGreaterThan(100);
    await expect(hurried.take("a", day, 1, 9)).rejects.toThrow("did not answer within 0.05 s");
    const many = Array.from({ length: 10_001 }, () => hurried.take("a", day, 1, 99_999));
    const messages = (await Promise.allSettled(many)).map((one) => "reason" in one && one.reason.message);
    expect([...new Set(messages)]).toEqual([
      expect.stringContaining("did not answer"),
      expect.stringContaining("too many requests wait"),
    ]);
    await unlock();
    expect(await store.take("b", day, 1, 9)).toEqual({ allowed: true, used: 1 });
    for (const each of [store, hurried]) await each.close();
  });
});

test.each(Object.entries({ sqliteQuota: () => sqliteQuota(":memory:"), threadedQuota: () => threaded() }))(
  "%s refuses whoever still waits when it is closed",
  async (_name, open) => {
    const store: QuotaStore = await open();
    const refused = expect(store.take("a", day, 1, 9)).rejects.toThrow(/finalized|ended/);
    await store.close();
    await refused;
  },
);

test("sqliteQuota keeps yesterday, forgets the days before", async () => {
  const store = sqliteQuota(":memory:");
  for (const each of ["2026-01-01", "2026-01-02", "2026-01-03"]) await store.take("a", each, 1, 9);
  expect((await store.take("a", "2026-01-02", 1, 9)).used).toBe(2);
  expect((await store.take("a", "2026-01-01", 1, 9)).used).toBe(1);
  store.close();
});

const addressOf = (number: number) => {
  const [high, middle, low] = [number >> 16, (number >> 8) & 255, number & 255];
  return freeAccounts + clientAccount(`10.${high}.${middle}.${low}`, [], { hops: 0 });
};
/** Two that no loop reaches. */
const [spender, user] = [addressOf(1_000_000), addressOf(1_000_001)];

/** How many of the first addresses have used something. */
async function kept(store: QuotaStore, among: number): Promise<number> {
  const used = Array.from({ length: among }, (_, number) => store.used(addressOf(number), day));
  return (await Promise.all(used)).filter((units) => units > 0).length;
}

describe("counters of more addresses than are kept", () => {
  test("have a bound, and take no memory; who used much, or has a key, is never forgotten", async () => {
    const store = sqliteQuota(join(folder, "bounded.sqlite"), { maxRows: 1000 });
    const failed = (error: unknown) => expect.unreachable(String(error));
    const quota = createQuota(store, { onFailure: "closed", now: () => Date.parse(day), failed });
    const takeFirst = async (number: number) => {
      const { remaining } = await quota.take({ plan: "free", account: addressOf(number), limit: 1000 }, 1);
      if (remaining !== 999) expect.fail(`${number}: ${remaining} left`);
    };
    const [addresses, atOnce] = [16_000, 500];
    await store.take(spender, day, 1000, 1000);
    await store.take("aegis:acme", day, 1, 1);
    await store.take(user, day, 129, 1000);
    const before = await bytesInUse();
    for (let number = 0; number < addresses; number += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, (_, place) => takeFirst(number + place)));
      if (number === 2000) expect(await kept(store, 2500)).toBeLessThanOrEqual(1063);
    }
    // The name of an account alone is longer than this for each of them.
    expect((await bytesInUse()) - before).toBeLessThan(16 * addresses);

    expect(await store.take(spender, day, 1, 1000)).toEqual({ allowed: false, used: 1000 });
    expect(await store.take("aegis:acme", day, 1, 1)).toEqual({ allowed: false, used: 1 });
    expect(await store.used(user, day)).toBe(129);
    expect(await kept(store, addresses)).toBeLessThanOrEqual(1063);
    // Those that came last are still there.
    expect(await store.used(addressOf(addresses - 1), day)).toBe(1);
    quota.close();
  });

  test("let a new one reach its limit, although all others used more", async () => {
    const store = sqliteQuota(":memory:", { maxRows: 160 });
    for (let number = 0; number < 160; number += 1) await store.take(addressOf(number), day, 5, 1000);
    for (const used of [1, 2, 3])
      expect(await store.take(spender, day, 1, 3)).toEqual({ allowed: true, used });
    expect(await store.take(spender, day, 1, 3)).toEqual({ allowed: false, used: 3 });
    store.close();
  });

  test("are deleted a few at a time, so that nobody waits for a million", async () => {
    const store = sqliteQuota(":memory:");
    const takes = Array.from({ length: 5000 }, (_, number) => store.take(addressOf(number), day, 1, 1000));
    await Promise.all(takes);
    const counts = [await kept(store, 5000)];
    while (counts.at(-1)! > 0 && counts.length < 50) {
      await store.take(addressOf(0), "2100-01-03", 1, 1000);
      counts.push(await kept(store, 5000));
    }
    expect([counts[0], counts.at(-1)]).toEqual([5000, 0]);
    expect(Math.max(...counts.slice(1).map((count, place) => counts[place]! - count))).toBeLessThan(1000);
    store.close();
  });
});
