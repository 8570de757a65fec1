import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { issueKey } from "../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { bearer, call, outcome, until } from "../helpers/http/proxy-client.ts";
import {
  type ProxyCommand,
  signalGroup,
  startProxyCommand,
  workersOf,
} from "../helpers/http/proxy-command.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { freePort, listenLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const list = "/api/v1/scores";
const linux = process.platform === "linux";
const directory = testFolder();
const storage = directoryStorage(join(directory, "store"));
const proxies: ProxyCommand[] = [];
beforeAll(() => publishArchive(storage));
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.kill();
});

function start(env: Record<string, string> = {}): ProxyCommand {
  const proxy = startProxyCommand(directory, { WEB_CONCURRENCY: "2", ...env });
  proxies.push(proxy);
  return proxy;
}

/** Processes that logged an answer. */
function answering({ output }: ProxyCommand): Set<number> {
  const lines = output.out.split("\n").filter((line) => line.includes('"answered"'));
  return new Set(lines.map((line) => Number(/"pid":(\d+)/.exec(line)?.[1])));
}

/** Sends requests one by one, each over a connection of its own, until these processes all answered one. */
async function untilAllAnswer(proxy: ProxyCommand, port: number, pids: readonly number[]): Promise<void> {
  await until("every worker to answer", async () => {
    expect(outcome(await call(port, list))).toBe("200");
    return pids.every((pid) => answering(proxy).has(pid));
  });
}

/** Connections that each have an answer behind them and half a request under way. */
async function halfRequests(port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, "127.0.0.1"));
  for (const socket of sockets) {
    socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(socket, "data");
    socket.write(`GET ${list} HTTP/1.1\r\nHost: x\r\n`);
  }
  return sockets;
}

const sum = (metrics: string, pattern: RegExp) =>
  [...metrics.matchAll(pattern)].reduce((total, [, value]) => total + Number(value), 0);
const counted = /^http_requests_total\{[^}]*route="\/api\/v1\/scores"[^}]*\} (\d+)$/gm;

describe("WEB_CONCURRENCY=2", () => {
  test.runIf(linux)(
    "answer and count together, are replaced when killed, and end with the process above",
    async () => {
      const { key } = await issueKey(storage, { plan: "aegis", owner: "acme", quota: 100 }, new Date());
      const metricsPort = await freePort();
      const proxy = start({ METRICS_PORT: String(metricsPort) });
      const port = await proxy.listening();
      const [first] = proxy.pids();
      let second: number | undefined;
      await until("another worker to start", async () => {
        second = workersOf(proxy.child).find((pid) => pid !== first);
        return second !== undefined;
      });
      process.kill(second!, "SIGKILL");
      // It may have listened before it was killed. Without any worker nobody would be answered below.
      const others = () => proxy.pids().filter((pid) => pid !== first && pid !== second);
      await until("the worker in its place to listen", () => others().length > 0);
      const pids = [first!, others()[0]!];
      expect(pids).not.toContain(proxy.child.pid);

      const calls = Array.from({ length: 200 }, () => call(port, list, { headers: bearer(key) }));
      const outcomes = (await Promise.all(calls)).map(outcome);
      expect(outcomes.filter((one) => one === "200")).toHaveLength(100);
      expect(outcomes.filter((one) => one === "429 QUOTA_EXCEEDED")).toHaveLength(100);
      await untilAllAnswer(proxy, port, pids);
      const answered = () => proxy.output.out.split('"answered"').length - 1;
      // Nothing of a worker that died before it could be asked is waited for.
      const metrics = () =>
        call(metricsPort, "/metrics").then(
          ({ text }) => text,
          () => "",
        );
      await until("every answer to be logged, and counted", async () => {
        const seen = sum(await metrics(), counted);
        return seen > 200 && seen === answered();
      });
      const seen = await metrics();
      expect(seen).toMatch(/^prs_snapshot_commit 1$/m);
      expect(seen).toMatch(/^prs_quota_store_up 1$/m);
      expect(seen).toMatch(/^process_resident_memory_bytes/m);

      const before = proxy.pids().length;
      const died = () => proxy.output.out.split("a worker died").length - 1;
      process.kill(first!, "SIGKILL");
      // A connection handed to it just now would never be answered.
      await until("a log line about each dead worker", () => died() === 2);
      await until("another worker to listen", async () => {
        expect(outcome(await call(port, list))).toBe("200");
        return proxy.pids().length > before;
      });
      await untilAllAnswer(proxy, port, proxy.pids().slice(before));
      await until("the metrics to show commit 1", async () =>
        /^prs_snapshot_commit 1$/m.test(await metrics()),
      );
      expect(proxy.child.exitCode).toBeNull();

      // The rest of them end when the process above them is killed.
      proxy.child.kill("SIGKILL");
      // Their output closes once none of them is left.
      await proxy.ended;
      await expect(call(port, list)).rejects.toThrow("ECONNREFUSED");
      const again = start({ WEB_CONCURRENCY: "1" });
      const refused = await call(await again.listening(), list, { headers: bearer(key) });
      expect(outcome(refused)).toBe("429 QUOTA_EXCEEDED");
    },
  );

  test.each([
    ["SIGTERM", "the first process", (proxy: ProxyCommand) => proxy.child.kill("SIGTERM")],
    ["SIGINT", "all of them, as Ctrl-C is", (proxy: ProxyCommand) => signalGroup(proxy.child, "SIGINT")],
  ] as const)(
    "%s to %s lets requests under way finish, then all end with 0",
    async (_signal, _whom, send) => {
      const proxy = start({ SHUTDOWN_SECONDS: "60" });
      const port = await proxy.listening(2);
      const sockets = await halfRequests(port, 4);
      send(proxy);
      const drains = () => proxy.output.out.split("\n").filter((line) => line.includes('"draining"')).length;
      await until("three processes to drain", () => drains() >= 3);
      for (const socket of sockets) {
        socket.write("\r\n");
        const answer = await text(socket);
        expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
        expect(answer).toMatch(/\r\nConnection: close\r\n/);
      }
      expect(await proxy.ended).toBe(0);
      expect(drains()).toBe(3);
      expect(proxy.output.err).toBe("");
    },
  );

  test("a worker that does not end any more is ended, once its time is up", async () => {
    const proxy = start({ SHUTDOWN_SECONDS: "1" });
    await proxy.listening(2);
    process.kill(proxy.pids()[0]!, "SIGSTOP");
    proxy.child.kill("SIGTERM");
    expect(await proxy.ended).toBe(0);
  });

  test.runIf(linux)("a signal before the first worker listens ends it with 0 and no complaint", async () => {
    const proxy = start();
    await until("a worker to start", () => workersOf(proxy.child).length > 0);
    proxy.child.kill("SIGTERM");
    expect(await proxy.ended).toBe(0);
    expect(proxy.output.err).toBe("");
  });

  test("a taken PORT ends it with 1, and is named once", async () => {
    const taken = createServer();
    const port = await listenLocally(taken);
    const proxy = start({ PORT: String(port) });
    expect(await proxy.ended).toBe(1);
    expect(proxy.output.err.match(new RegExp(`\\bPORT ${port} is taken`, "g"))).toHaveLength(1);
    taken.close();
  });
});
