import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../../helpers/servers/programs.ts";
import { ask, type Target } from "../load/client.ts";
import { nodeCommand, startServer, whenReady } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";
import { startPostgres } from "./postgres.ts";

/** Express on PostgreSQL over the sample's markets, at `/markets`. */
export async function startArchivePeer(bench: Bench): Promise<Target> {
  const database = await startPostgres(bench);
  return startExpress(bench, "test/bench/peers/archive.ts", "/markets?pageSize=1", { DATABASE: database });
}

/** Express with this gzip body on every path of one segment. */
export async function startConstantPeer(bench: Bench, name: string, body: Buffer): Promise<Target> {
  const file = join(bench.data.scratch, `${name}.gz`);
  await writeFile(file, body);
  return startExpress(bench, "test/bench/peers/constant.ts", "/constant", { BODY: file });
}

async function startExpress({ ends }: Bench, script: string, path: string, env: NodeJS.ProcessEnv) {
  const target: Target = { port: await freePort(), headers: {} };
  const child = startServer(ends, nodeCommand(script), {
    env: { PATH: process.env.PATH, NODE_ENV: "production", PORT: String(target.port), ...env },
  });
  await whenReady(child, async () => void (await ask(target, path)));
  return target;
}
