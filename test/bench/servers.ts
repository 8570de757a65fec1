import { type ChildProcess, execFile } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { usageError } from "../../scripts/cli.ts";
import { issueKey } from "../../snapshots/keys/keys.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { startUnit } from "../helpers/http/proxy-command.ts";
import { endProcess, freePort, lookUp, nodeOptions } from "../helpers/servers/programs.ts";

/** A server under measurement. */
export interface Target {
  port: number;
  headers: Record<string, string>;
}

const oneConnection = new Agent({ keepAlive: true, maxSockets: 1 });

/** One request, over one connection for all or those of an agent. Throws on any status but 200. */
export async function ask({ port, headers }: Target, path: string, agent = oneConnection) {
  const start = performance.now();
  const all = { ...headers, "accept-encoding": "gzip" };
  const sending = request({ port, host: "127.0.0.1", path, agent, headers: all });
  sending.end();
  const [response] = await once(sending, "response");
  const sent = await buffer(response);
  const milliseconds = performance.now() - start;
  const body = sent[0] === 0x1f && sent[1] === 0x8b ? gunzipSync(sent) : sent;
  if (response.statusCode !== 200)
    throw new Error(`${path}: ${response.statusCode} ${body.subarray(0, 300)}`);
  return { milliseconds, sent, body };
}

export const askJson = async (target: Target, path: string): Promise<ReturnType<typeof JSON.parse>> =>
  JSON.parse((await ask(target, path)).body.toString());

const root = join(import.meta.dirname, "../..");

/** How node runs a source of this repository. */
export const nodeArguments = (file: string, ...flags: string[]) => [
  ...flags,
  ...nodeOptions,
  join(root, file),
];

/** A program by its name. Throws USAGE when it is not installed. */
export function programOf(name: string): string {
  const program = lookUp(name);
  if (program) return program;
  throw usageError(`${name} is not installed; test/bench/README.md names its package`);
}

/** Runs a program to its end, node by default. Throws when it fails, with what it said. */
export function runProgram(
  ends: AsyncDisposableStack,
  args: readonly string[],
  { program = process.execPath, env = process.env } = {},
) {
  const running = promisify(execFile)(program, args, { cwd: root, env });
  // Ctrl-C in the middle of it; once it has ended there is nothing to signal.
  ends.defer(() => void running.child.kill());
  return running;
}

/** Starts a server that ends with the row, node by default, and waits until it answers. */
export async function startTarget(
  ends: AsyncDisposableStack,
  target: Target,
  path: string,
  how: { args: string[]; program?: string; env?: Record<string, string> },
): Promise<ChildProcess> {
  const env = { NODE_ENV: "production", PORT: String(target.port), ...how.env };
  const { child, output } = startUnit({ program: process.execPath, ...how, cwd: root, env });
  ends.defer(() => endProcess(child, "SIGTERM"));
  await until(`a server to answer ${path}`, () => {
    if (child.exitCode !== null) throw new Error(`a server has ended: ${output.err}`);
    return ask(target, path).then(
      () => true,
      () => false,
    );
  });
  return child;
}

/** Issues a key of the Aegis plan whose quota no measurement uses up. */
export const issueBenchKey = async (storage: Storage) =>
  (await issueKey(storage, { plan: "aegis", owner: "bench", quota: 1e12, expiresAt: undefined }, new Date()))
    .key;

/** Starts the proxy over a store as `npm run proxy` does, in one process. */
export async function startProxy(
  ends: AsyncDisposableStack,
  given: { store: string; scratch: string; key?: string; env?: Record<string, string>; flags?: string[] },
) {
  const { store, scratch, env, flags = [] } = given;
  const key = given.key ?? (await issueBenchKey(await openStorage(store, scratch)));
  const [port, metricsPort] = [await freePort(), await freePort()];
  const target = { port, metricsPort, headers: { "x-api-key": key } };
  const child = await startTarget(ends, target, "/readyz", {
    // As in package.json.
    args: nodeArguments("scripts/proxy.ts", "--initial-old-space-size=256", ...flags),
    env: {
      ...env,
      SNAPSHOT_STORE: store,
      METRICS_PORT: String(metricsPort),
      QUOTA_STORE: join(scratch, `quota-${port}.sqlite`),
      LOG_LEVEL: "warn",
    },
  });
  return { ...target, child };
}
