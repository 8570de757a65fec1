import { chmod, chown, mkdir } from "node:fs/promises";
import { totalmem } from "node:os";
import { Client } from "pg";
import { serverUser } from "../../helpers/servers/postgres.ts";
import { freePort } from "../../helpers/servers/programs.ts";
import { runProgram, startServer, whenReady } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";
import { loadMarkets } from "./postgres-load.ts";

const user = "bench";

/** How it is set up, as PostgreSQL's documentation advises for a machine of this size with an SSD. */
function settings(port: number): Record<string, string | number> {
  const mebibytes = totalmem() / 2 ** 20;
  return {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    shared_buffers: `${Math.min(4096, Math.round(mebibytes / 4))}MB`,
    effective_cache_size: `${Math.round(mebibytes / 2)}MB`,
    work_mem: "64MB",
    maintenance_work_mem: "512MB",
    random_page_cost: 1.1,
    effective_io_concurrency: 200,
    // Compiling takes longer than these queries do.
    jit: "off",
    default_toast_compression: "lz4",
    max_wal_size: "8GB",
    // The data does not change while it is measured.
    autovacuum: "off",
    logging_collector: "off",
    log_min_messages: "fatal",
  };
}

/** Starts PostgreSQL over the sample's markets; returns its address. */
export async function startPostgres({ data, ends, programs }: Bench): Promise<string> {
  const sources = await data.sources();
  const port = await freePort();
  const address = `postgresql://${user}@127.0.0.1:${port}/postgres`;
  const owner = serverUser();
  const start = async (folder: string) => {
    const given = Object.entries(settings(port)).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    // Its fast way to stop: SIGTERM would wait for clients.
    const child = startServer(ends, [programs.postgres, "-D", folder, ...given], {
      ...owner,
      cwd: folder,
      stopSignal: "SIGINT",
    });
    await whenReady(child, () => withClient(address, async () => {}));
  };
  let started = false;
  const folder = await data.once("postgres", async (place) => {
    await mkdir(place);
    await chmod(place, 0o700);
    if (owner.uid !== undefined) await chown(place, owner.uid, owner.gid!);
    const init = [programs.initdb, "-D", place, "-U", user, "--no-sync"];
    await runProgram(ends, [...init, "-A", "trust", "-E", "UTF8", "--locale=C", "--lc-ctype=C.UTF-8"], {
      ...owner,
      cwd: place,
    });
    await start(place);
    started = true;
    await withClient(address, (sql) =>
      loadMarkets(sql, { address, psql: programs.psql, sources, scratch: data.scratch }),
    );
  });
  if (!started) await start(folder);
  return address;
}

async function withClient<T>(address: string, work: (sql: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: address });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
