import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { endProcess, findProgram, freePort, serveLocally, startServer } from "./programs.ts";

/** redis-server's program, or undefined where it is not installed; under CI that is an error. */
export const findRedis = () => findProgram("redis-server");

/** A Redis server of a test's own, which keeps its data over `kill` and `start`. */
export interface TestRedis {
  port: number;
  url: string;
  start(): Promise<void>;
  /** Ends it as a power cut of the program would. */
  kill(): Promise<void>;
  /** Stops it in its tracks: connections stay open, nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** Runs one command over a connection of its own. */
  run(command: string, ...values: string[]): Promise<unknown>;
  stop(): Promise<void>;
}

/** A server on a free loopback port, with these settings beside those of every test; it is not running yet. */
export async function testRedis(
  program: string,
  password?: string,
  more: Readonly<Record<string, string>> = {},
): Promise<TestRedis> {
  const folder = await mkdtemp(join(tmpdir(), "prs-redis-"));
  const port = await freePort();
  const credentials = password === undefined ? "" : `:${password}@`;
  const url = `redis://${credentials}127.0.0.1:${port}`;
  let child: ChildProcess | undefined;

  const kill = () => endProcess(child, "SIGKILL");

  return {
    port,
    url,
    async start() {
      const says = /Ready to accept connections/;
      const given = settings(folder, port, password, more);
      ({ child } = await startServer(program, given, { says, pipe: "stdout" }));
    },
    kill,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    async run(command, ...values) {
      const redis = new Redis(url);
      try {
        return await redis.call(command, ...values);
      } finally {
        redis.disconnect();
      }
    },
    async stop() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function settings(
  folder: string,
  port: number,
  password: string | undefined,
  more: Readonly<Record<string, string>>,
): string[] {
  const values = {
    port: String(port),
    bind: "127.0.0.1",
    dir: folder,
    appendonly: "yes",
    // Every answer is in the file: left at every second, a kill may lose the last ones.
    appendfsync: "always",
    save: "",
    ...(password !== undefined && { requirepass: password }),
    ...more,
  };
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, value]);
}

/** A way to a Redis server that counts the scripts sent through it, and can lose its connections in silence. */
export interface Relay {
  url: string;
  scripts(): number;
  /** Connections made so far. */
  connections(): number;
  /** From here on the connections open now carry nothing more; new ones do. */
  lose(): void;
  /** Where new connections lead from here on; those open now stay where they are. */
  turn(port: number): void;
  stop(): Promise<void>;
}

/** Listens on a free loopback port, and leads to another. */
export async function startRelay(first: number): Promise<Relay> {
  let to = first;
  const pairs = new Set<[Socket, Socket]>();
  let [scripts, connections] = [0, 0];
  const server = createServer((client) => {
    connections += 1;
    const upstream = connect(to, "127.0.0.1");
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    client.on("data", (bytes) => {
      scripts += bytes.toString("latin1").split("$4\r\neval\r\n").length - 1;
    });
    client.pipe(upstream).pipe(client);
    upstream.on("error", () => client.resetAndDestroy()).on("close", () => client.destroy());
    client.on("close", () => {
      upstream.destroy();
      pairs.delete(pair);
    });
  });
  const { port, stop } = await serveLocally(server);
  return {
    url: `redis://127.0.0.1:${port}`,
    scripts: () => scripts,
    connections: () => connections,
    lose() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream);
        upstream.unpipe(client);
      }
    },
    turn(port) {
      to = port;
    },
    stop,
  };
}
