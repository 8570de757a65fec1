import { join } from "node:path";
import { issueKey } from "../../snapshots/keys/records.ts";
import { directoryStorage } from "../../snapshots/store/directory.ts";
import { freePort } from "../helpers/programs.ts";
import { ask, type Target } from "./client.ts";
import { nodeCommand, startServer, whenReady } from "./processes.ts";
import type { Bench } from "./run.ts";

/** The proxy as `npm run proxy` starts it, in one process of its own. */
export interface Ours extends Target {
  /** The value of one of its metrics. */
  metric(name: string): Promise<number>;
}

/** How the proxy runs here where that is not its default; printed with the figures. */
export const proxyConfiguration = "LOG_LEVEL=warn, QUOTA_STORE=a file, one process, default CACHE_BYTES";

/** Starts the proxy over a store, with a key of the Aegis plan whose quota no measurement uses up. */
export async function startProxy({ data, ends, options }: Bench, store: string): Promise<Ours> {
  const owner = { plan: "aegis", owner: "bench", quota: 1e12, expiresAt: undefined } as const;
  const { key } = await issueKey(directoryStorage(store), owner, new Date());
  const [port, metricsPort] = [await freePort(), await freePort()];
  const flags = options.profile ? ["--cpu-prof", `--cpu-prof-dir=${options.profile}`] : [];
  const child = startServer(ends, nodeCommand("scripts/proxy.ts", ...flags), {
    env: {
      PATH: process.env.PATH,
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
  return {
    ...target,
    async metric(name) {
      const { sent } = await ask({ port: metricsPort, headers: {} }, "/metrics");
      return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(sent.toString("utf8"))?.[1]);
    },
  };
}
