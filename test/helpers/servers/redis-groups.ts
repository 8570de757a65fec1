import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { until } from "../http/proxy-client.ts";
import { endProcess, freePort, startServer } from "./programs.ts";
import { type TestRedis, testRedis } from "./redis.ts";

/** Redis servers that take over from each other. Each demands that a replica follow it. */
export interface RedisGroup {
  /** For QUOTA_STORE. */
  url: string;
  servers: TestRedis[];
  /** Whether a primary that took over has another replica. */
  spare: boolean;
  /** How often a replica has taken over so far. On a busy machine one does that also for a primary that only hangs. */
  failovers(): Promise<number>;
  /** Kills the server that has a key, and waits until another one has it. */
  failOver(key: string): Promise<TestRedis>;
  /** Starts a server that was killed, and waits until all are as they were. */
  revive(server: TestRedis): Promise<void>;
  stop(): Promise<void>;
}

// Both need what an address must carry.
const [password, ofSentinels] = ["s3rvers", "s3ntinels"];
const settings = {
  masterauth: password,
  appendfsync: "everysec",
  "min-replicas-to-write": "1",
  "min-replicas-max-lag": "1",
  "repl-diskless-sync-delay": "0",
  "repl-ping-replica-period": "1",
};

async function startServers(program: string, count: number, more: () => Promise<Record<string, string>>) {
  const servers: TestRedis[] = [];
  for (let number = 0; number < count; number += 1) {
    const server = await testRedis(program, password, { ...settings, ...(await more()) });
    await server.start();
    servers.push(server);
  }
  return servers;
}

const replicasOf = async (server: TestRedis) =>
  Number(/state=online/g[Symbol.match](String(await server.run("INFO", "replication")))?.length ?? 0);

/** A primary with two replicas, and three sentinels that watch it under the name `counters`. */
export async function startSentinels(program: string): Promise<RedisGroup> {
  const servers = await startServers(program, 3, async () => ({}));
  const folder = await mkdtemp(join(tmpdir(), "prs-sentinels-"));
  const [first, ...others] = servers as [TestRedis, ...TestRedis[]];
  const follow = (server: TestRedis, { port }: TestRedis) =>
    server.run("REPLICAOF", "127.0.0.1", String(port));
  for (const server of others) await follow(server, first);
  const sentinels: { port: number; child: ChildProcess }[] = [];
  for (let number = 0; number < 3; number += 1) {
    const port = await freePort();
    const file = join(folder, `sentinel-${number}.conf`);
    const lines = [
      `port ${port}`,
      "bind 127.0.0.1",
      `dir ${folder}`,
      `requirepass ${ofSentinels}`,
      `sentinel sentinel-pass ${ofSentinels}`,
      `sentinel monitor counters 127.0.0.1 ${first.port} 2`,
      `sentinel auth-pass counters ${password}`,
      "sentinel down-after-milliseconds counters 2000",
      "sentinel failover-timeout counters 3000",
    ];
    await writeFile(file, `${lines.join("\n")}\n`);
    const { child } = await startServer(program, [file, "--sentinel"], { says: /\+monitor/, pipe: "stdout" });
    sentinels.push({ port, child });
  }
  const ask = async (port: number, ...words: string[]) => {
    const sentinel = new Redis(port, { password: ofSentinels });
    try {
      return await sentinel.call("SENTINEL", ...words);
    } finally {
      sentinel.disconnect();
    }
  };
  const primaryOf = async () => {
    const [, port] = (await ask(sentinels[0]!.port, "GET-MASTER-ADDR-BY-NAME", "counters")) as string[];
    return servers.find((server) => server.port === Number(port))!;
  };
  const whole = () =>
    until("the sentinels to know each other and both replicas", async () => {
      const known = await Promise.all(
        sentinels.map(async ({ port }) => String(await ask(port, "MASTER", "counters"))),
      );
      const all = known.every((text) => /num-slaves,2,num-other-sentinels,2/.test(text));
      return all && (await replicasOf(await primaryOf())) === 2;
    });
  await whole();
  return {
    url:
      `redis+sentinel://:${password}@${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",")}/counters/0` +
      `?sentinel_password=${ofSentinels}`,
    servers,
    spare: true,
    failovers: async () =>
      Number(/config-epoch,(\d+)/.exec(String(await ask(sentinels[0]!.port, "MASTER", "counters")))![1]),
    async failOver() {
      const killed = await primaryOf();
      await killed.kill();
      await until("the sentinels to name another primary", async () => (await primaryOf()) !== killed);
      return killed;
    },
    async revive(server) {
      await server.start();
      // Left alone, the sentinels would tell it after some ten seconds.
      await follow(server, await primaryOf());
      await whole();
    },
    async stop() {
      for (const { child } of sentinels) await endProcess(child, "SIGKILL");
      for (const server of servers) await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Three primaries that share the slots of a cluster, each with a replica. */
export async function startCluster(program: string): Promise<RedisGroup> {
  const servers = await startServers(program, 6, async () => ({
    "cluster-enabled": "yes",
    "cluster-port": String(await freePort()),
    "cluster-node-timeout": "2000",
    "cluster-replica-validity-factor": "0",
  }));
  const [first] = servers as [TestRedis];
  const primaries = servers.slice(0, 3);
  for (const [number, server] of primaries.entries()) {
    const [from, to] = [number, number + 1].map((third) => Math.floor((16_384 * third) / 3));
    await server.run("CLUSTER", "ADDSLOTSRANGE", String(from), String(to! - 1));
  }
  for (const [number, server] of servers.entries()) {
    await server.run("CLUSTER", "SET-CONFIG-EPOCH", String(number + 1));
    const [, bus] = (await server.run("CONFIG", "GET", "cluster-port")) as [string, string];
    if (number > 0) await first.run("CLUSTER", "MEET", "127.0.0.1", String(server.port), bus);
  }
  const stateOf = async (server: TestRedis) => String(await server.run("CLUSTER", "INFO"));
  const know = (what: string, pattern: RegExp) =>
    until(`every node to ${what}`, async () =>
      (await Promise.all(servers.map(stateOf))).every((text) => pattern.test(text)),
    );
  await know("know the others", /cluster_known_nodes:6/);
  for (const [number, server] of servers.slice(3).entries())
    await server.run("CLUSTER", "REPLICATE", String(await primaries[number]!.run("CLUSTER", "MYID")));
  const whole = async () => {
    await know("take part", /cluster_state:ok\s[\s\S]*cluster_slots_ok:16384/);
    await until("three replicas to follow", async () => {
      const counts = await Promise.all(servers.map(replicasOf));
      return counts.filter((count) => count > 0).length === 3;
    });
  };
  await whole();
  const primaryOf = async (key: string, asked: readonly TestRedis[]) => {
    const replies = await Promise.all(asked.map(async (server) => server.run("EXISTS", key).catch(String)));
    const [, port] = /MOVED \d+ \S*:(\d+)/.exec(replies.join(" ")) ?? [];
    const primary = replies.findIndex((reply) => typeof reply === "number");
    return primary < 0 ? servers.find((each) => each.port === Number(port))! : asked[primary]!;
  };
  return {
    url: `redis+cluster://:${password}@${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    servers,
    spare: false,
    failovers: async () => Number(/cluster_current_epoch:(\d+)/.exec(await stateOf(first))![1]),
    async failOver(key) {
      const killed = await primaryOf(key, servers);
      await killed.kill();
      const others = servers.filter((server) => server !== killed);
      await until("the replica to take over", async () => (await primaryOf(key, others)) !== killed);
      return killed;
    },
    async revive(server) {
      await server.start();
      await whole();
    },
    async stop() {
      for (const server of servers) await server.stop();
    },
  };
}
