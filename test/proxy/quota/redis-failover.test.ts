import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, until } from "../../helpers/http/proxy-client.ts";
import { findRedis } from "../../helpers/servers/redis.ts";
import { type RedisGroup, startCluster, startSentinels } from "../../helpers/servers/redis-groups.ts";

const list = "/api/v1/scores";
const program = findRedis();
const noon = Date.parse("2100-03-01T12:00:00.000Z");
const policies = ["closed", "local"] as const;
type Policy = (typeof policies)[number];
const processes = 2;
const quota = 300;

// FAILOVERS=60 FAILOVER_SECONDS=10 kills a primary every ten seconds for ten minutes, and prints what that took.
const failovers = Number(process.env.FAILOVERS ?? 1);
const seconds = Number(process.env.FAILOVER_SECONDS ?? 0);

/** Requests under one key, sent without end to several proxies by turns. */
function load(proxies: readonly TestProxy[], key: string) {
  const agent = new Agent({ keepAlive: true });
  const answers: { at: number; status: number }[] = [];
  let stopped = false;
  const workers = Array.from({ length: 2 * processes }, async (_, number) => {
    while (!stopped) {
      const { status } = await proxies[number % processes]!.get(list, { headers: bearer(key), agent });
      answers.push({ at: performance.now(), status });
      // Slow enough that more is counted before the failover than in its last second.
      await pause(20);
    }
  });
  const times = (...statuses: number[]) =>
    answers.filter(({ status }) => statuses.includes(status)).map(({ at }) => at);
  const since = (time: number, ...statuses: number[]) => times(...statuses).filter((at) => at > time).length;
  return {
    answers,
    times,
    served: () => times(200).length,
    /** The most that was served within so many milliseconds. */
    most: (milliseconds: number) =>
      Math.max(
        ...times(200).map(
          (end, index, all) => all.slice(0, index + 1).filter((at) => at >= end - milliseconds).length,
        ),
      ),
    counting: (now = performance.now()) =>
      until("requests to be counted", () => since(now, 200, 429) > processes),
    usedUp: (now = performance.now()) =>
      until("the plan to be used up", () => since(now, 429) > 4 * processes),
    async stop() {
      stopped = true;
      await Promise.all(workers);
      agent.destroy();
    },
  };
}

describe.skipIf(!program).each([
  ["sentinel", startSentinels],
  ["cluster", startCluster],
] as const)("QUOTA_STORE=redis+%s://…", (store, start) => {
  let group: RedisGroup;
  const proxies: Record<Policy, TestProxy[]> = { closed: [], local: [] };

  beforeAll(async () => {
    group = await start(program!);
    const first = await startTestProxy({
      quotaStore: group.url,
      quotaOnFailure: "closed",
      limits: { quotaSeconds: 1 },
    });
    const others = (count: number, quotaOnFailure: Policy) =>
      Promise.all(Array.from({ length: count }, () => first.another({ quotaOnFailure })));
    proxies.closed = [first, ...(await others(processes - 1, "closed"))];
    proxies.local = await others(processes, "local");
    for (const { clock } of [...proxies.closed, ...proxies.local]) clock.now = noon;
  });
  afterAll(async () => {
    for (const proxy of [...proxies.local, ...proxies.closed.reverse()]) await proxy.stop();
    await group.stop();
  });

  /** A key that every proxy knows. In a cluster, all counters of a round are on one server, as their hash tag says. */
  async function issue(owner: string): Promise<string> {
    const key = await proxies.closed[0]!.issue({ owner, quota });
    for (const proxy of [...proxies.closed, ...proxies.local]) await proxy.accepts(key);
    return key;
  }

  test.each(policies)("%s: /readyz and a metric tell how requests are counted", async (policy) => {
    const { metrics, get } = proxies[policy][0]!;
    const told = async () => (await get("/readyz")).json().counting ?? {};
    await until("every primary to tell", async () => (await told()).replica === "required");
    expect(await told()).toEqual({ store, onFailure: policy, replica: "required" });
    const sample = `prs_quota_store_info{store="${store}",on_failure="${policy}",replica="required"} 1`;
    expect(await metrics.metrics()).toContain(sample);
  });

  if (store === "cluster")
    test("the address of a node as that of one server is refused", async () => {
      const started = startTestProxy({ quotaStore: group.servers[0]!.url });
      await expect(started).rejects.toMatchObject({ code: "CONFIG" });
      await expect(started).rejects.toThrow(/^QUOTA_STORE .*Redis Cluster.*redis\+cluster:/);
    });

  const rounds = Array.from({ length: failovers }, (_, number) => number);
  test.each(rounds)("a primary is killed under load: plans hold but for the bound (%i)", async (round) => {
    const began = performance.now();
    const before = await group.failovers();
    const closed = load(proxies.closed, await issue(`closed {${round}}`));
    const local = load(proxies.local, await issue(`local {${round}}`));
    await until(
      "most of the plans to be used",
      () => Math.min(closed.served(), local.served()) > quota * 0.7,
    );

    const killedAt = performance.now();
    const killed = await group.failOver(`prs:quota:2100-03-01:aegis:closed {${round}}`);
    const electedAt = performance.now();
    if (group.spare) await closed.counting();
    await group.revive(killed);
    await closed.counting();
    await closed.usedUp();
    for (const { get } of proxies.local)
      await until("the store to be back", async () => (await get("/readyz")).json().quotaStore === "ok");
    await local.usedUp();
    await until("the next round", () => performance.now() - began > seconds * 1000);
    await Promise.all([closed.stop(), local.stop()]);

    // On a machine that stalls, a replica takes over from a primary that only hangs, too.
    const taken = (await group.failovers()) - before;
    const figures = ([one, allowance]: readonly [typeof closed, number]) => ({
      served: one.served(),
      over: one.served() - quota,
      bound: allowance + taken * one.most(1000),
      asked: one.answers.length,
    });
    const [strict, lenient] = (
      [
        [closed, 0],
        [local, processes * quota],
      ] as const
    ).map(figures);
    if (failovers > 1) {
      const refusals = closed.times(503);
      const unavailable = (refusals.at(-1) ?? 0) - (refusals[0] ?? 0);
      const [elected, away] = [electedAt - killedAt, unavailable].map(Math.round);
      console.log(JSON.stringify({ store, round, taken, elected, away, closed: strict, local: lenient }));
    }
    expect(strict!.over).toBeLessThanOrEqual(strict!.bound);
    expect(lenient!.over).toBeLessThanOrEqual(lenient!.bound);
    expect(local.times(503)).toEqual([]);
  });
});
