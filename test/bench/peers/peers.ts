import { mkdir, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import { makeDatabase, openDatabase, type TestPostgres } from "../../helpers/servers/postgres.ts";
import { freePort } from "../../helpers/servers/programs.ts";
import { ask, type Target } from "../load/client.ts";
import { nodeCommand, startServer, whenReady } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";
import { labelColumns, loadLines, scoreColumns } from "./market-lines.ts";

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

/** How it is set up, as PostgreSQL's documentation advises for a machine of this size with an SSD. */
function settings(): Record<string, string | number> {
  const mebibytes = totalmem() / 2 ** 20;
  return {
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
  };
}

/** Starts PostgreSQL over the sample's markets; returns its address. */
async function startPostgres({ data, ends, programs }: Bench): Promise<string> {
  const sources = await data.sources();
  const open = async (folder: string) => {
    const server = await openDatabase(programs, folder, settings());
    ends.defer(server.stop);
    return server;
  };
  let server: TestPostgres | undefined;
  const folder = await data.once("postgresql", async (place) => {
    await mkdir(place);
    await makeDatabase(programs, place);
    server = await open(place);
    const client = await server.connect();
    await client.query(tables);
    const command = [programs.psql, addressOf(server), "-X", "-q", "-v", "ON_ERROR_STOP=1"];
    await loadLines([...command, "-c", "COPY markets FROM STDIN"], sources, data.scratch);
    for (const index of indexes) await client.query(index);
    await client.end();
  });
  return addressOf(server ?? (await open(folder)));
}

const addressOf = ({ env: { PGUSER, PGHOST, PGPORT, PGDATABASE } }: TestPostgres) =>
  `postgresql://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}`;

const filtered = [...labelColumns, "disputed", "composite", ...scoreColumns];

/**
 * The record is text, as it is sent. It lies out of line, so that counting reads narrow rows; the large index holds all
 * that filters and facets look at in the archive's order, so that pages and counts need no row at all but those shown.
 */
const tables = `
  CREATE TABLE markets (
    resolved_at timestamptz NOT NULL, id uuid NOT NULL, ${labelColumns.map((name) => `${name} text NOT NULL`).join(", ")},
    disputed boolean NOT NULL, composite smallint NOT NULL,
    ${scoreColumns.map((name) => `${name} smallint NOT NULL`).join(", ")}, record text NOT NULL,
    words tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', record::json ->> 'question')) STORED
  ) WITH (toast_tuple_target = 128)`;

const indexes = [
  `CREATE UNIQUE INDEX ON markets (resolved_at DESC, id DESC) INCLUDE (${filtered.join(", ")})`,
  ...filtered.map((column) => `CREATE INDEX ON markets (${column})`),
  "CREATE INDEX ON markets USING gin (words)",
  "VACUUM (ANALYZE) markets",
];
