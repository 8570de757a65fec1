import { once } from "node:events";
import { join } from "node:path";
import { issueKey } from "../../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { freePort } from "../../helpers/servers/programs.ts";
import { ask, type Target } from "../load/client.ts";
import { nodeCommand, startServer, whenReady } from "./processes.ts";
import type { Bench } from "./run.ts";

/** The proxy as `npm run proxy` starts it, in one process of its own. */
export interface Ours extends Target {
  /** The value of one of its metrics. */
  metric(name: string): Promise<number>;
}

/** How the proxy runs here where that is not its default; printed with the figures. */
export const proxyConfiguration = "LOG_LEVEL=warn, QUOTA_STORE=a file, one process, default CACHE_BYTES";

/** Starts the proxy over a store, by default the sample's, with a key whose quota no measurement uses up. */
export async function startProxy(bench: Bench, store?: string): Promise<Ours> {
  return (await start(bench, store ?? (await bench.data.store()))).ours;
}

/**
 * The same, with a function that tells how many milliseconds the longest turn of its event loop took since the last
 * call.
 */
export async function startWatchedProxy(bench: Bench) {
  const watched = ["--import", new URL("../load/turns.ts", import.meta.url).href];
  const { ours, child } = await start(bench, await bench.data.store(), watched);
  return {
    ...ours,
    async longestTurn(): Promise<number> {
      const answered = once(child, "message");
      child.send("");
      const [milliseconds] = await answered;
      return milliseconds;
    },
  };
}

/** The same over a store in S3, which has this key, and its process. */
export const startProxyOn = (bench: Bench, store: string, key: string, environment: NodeJS.ProcessEnv) =>
  start(bench, store, [], { key, environment });

/** Issues a key of the Aegis plan whose quota no measurement uses up. */
export const issueBenchKey = async (storage: Storage) =>
  (await issueKey(storage, { plan: "aegis", owner: "bench", quota: 1e12, expiresAt: undefined }, new Date()))
    .key;

async function start(
  { data, ends, options }: Bench,
  store: string,
  more: readonly string[] = [],
  given?: { key: string; environment: NodeJS.ProcessEnv },
) {
  const key = given?.key ?? (await issueBenchKey(directoryStorage(store)));
  const [port, metricsPort] = [await freePort(), await freePort()];
  const profiling = options.profile ? ["--cpu-prof", `--cpu-prof-dir=${options.profile}`] : [];
  // As in package.json.
  const flags = ["--initial-old-space-size=256", ...profiling, ...more];
  const child = startServer(ends, nodeCommand("scripts/proxy.ts", ...flags), {
    // A preloaded file answers messages.
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: {
      PATH: process.env.PATH,
      ...given?.environment,
      NODE_ENV: "production",
      SNAPSHOT_STORE: store,
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      QUOTA_STORE: join(data.scratch, `quota-${port}.sqlite`),
      LOG_LEVEL: "warn",
    },
  });
  const target = { port, headers: { "x-api-key": key } };
  await whenReady(child, async () => void (await ask(target, "/readyz")));
  const ours: Ours = {
    ...target,
    async metric(name) {
      const { sent } = await ask({ port: metricsPort, headers: {} }, "/metrics");
      return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(sent.toString("utf8"))?.[1]);
    },
  };
  return { ours, child };
}
