import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { issueKey } from "../../../snapshots/keys/records.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { call, until } from "../http/proxy-client.ts";
import { publishArchive } from "../publish/records.ts";
import { freePort, nodeOptions } from "../servers/programs.ts";

/** The proxy as a process of its own, which knows one Aegis key. */
export interface AttackedProcess {
  directory: string;
  port: number;
  key: string;
  /** Everything it wrote to stdout and stderr. */
  output: () => string;
  alive: () => boolean;
  metrics: () => Promise<string>;
  /** Asks it to end; its exit code. */
  stop(): Promise<number | null>;
}

/** Starts `npm run proxy`'s own command on a small archive, telling all it has to tell. */
export async function startAttackedProcess(): Promise<AttackedProcess> {
  const directory = await mkdtemp(join(tmpdir(), "prs-attack-"));
  const storage = directoryStorage(join(directory, "store"));
  await publishArchive(storage);
  const { key } = await issueKey(storage, { plan: "aegis", owner: "acme" }, new Date());
  const metricsPort = await freePort();
  const settings = {
    SNAPSHOT_STORE: "store",
    PORT: "0",
    LOG_LEVEL: "trace",
    METRICS_PORT: String(metricsPort),
  };
  const script = new URL("../../../scripts/proxy.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [...nodeOptions, script], {
    env: { PATH: process.env.PATH, INIT_CWD: directory, ...settings },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const closed = once(child, "close");
  const alive = () => child.exitCode === null && child.signalCode === null;
  await until("the proxy to listen or to end", () => output.includes('"listening"') || !alive());
  return {
    directory,
    port: Number(/"url":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(output)?.[1]),
    key,
    output: () => output,
    alive,
    metrics: async () => (await call(metricsPort, "/metrics")).text,
    async stop() {
      child.kill("SIGTERM");
      await closed;
      await rm(directory, { recursive: true, force: true });
      return child.exitCode;
    },
  };
}
