import { mkdir } from "node:fs/promises";
import { totalmem } from "node:os";
import { makeDatabase, openDatabase, type TestPostgres } from "../../helpers/servers/postgres.ts";
import { freePort } from "../../helpers/servers/programs.ts";
import type { Bench } from "../run.ts";
import { nodeArguments, programOf, startTarget, type Target } from "../servers.ts";
import { labelColumns, scoreColumns } from "./conditions.ts";

/** How it is set up, as PostgreSQL's documentation advises for a machine of this size with an SSD. */
const mebibytes = totalmem() / 2 ** 20;
const settings = {
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

const labels = Object.keys(labelColumns);
const filtered = [...labels, "disputed", "composite", ...scoreColumns];
const score = (key: string) =>
  `jsonb_path_query_first(r, '$.dimensions[*] ? (@.key == "${key}").score')::smallint`;

/**
 * The record is text, as it is sent. It lies out of line, so that counting reads narrow rows; the large index holds all
 * that filters and facets look at in the archive's order, so that pages and counts need no row at all but those shown.
 */
const statements = (lines: string) => [
  `CREATE TABLE markets (
    resolved_at timestamptz NOT NULL, id uuid NOT NULL, ${labels.map((name) => `${name} text NOT NULL`)},
    disputed boolean NOT NULL, composite smallint NOT NULL,
    ${scoreColumns.map((name) => `${name} smallint NOT NULL`)}, record text NOT NULL,
    words tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', record::json ->> 'question')) STORED
  ) WITH (toast_tuple_target = 128)`,
  "CREATE UNLOGGED TABLE lines (record text)",
  // JSON has none of these two characters.
  `COPY lines FROM '${lines}' (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01')`,
  `INSERT INTO markets SELECT (r ->> 'resolvedAt')::timestamptz, (r ->> 'id')::uuid,
    ${Object.entries(labelColumns).map(([name, of]) => (name === "category" ? `lower(r ->> '${of}')` : `r ->> '${of}'`))},
    (r ->> 'disputed')::boolean, (r ->> 'composite')::smallint, ${scoreColumns.map(score)}, record
    FROM (SELECT record, record::jsonb AS r FROM lines OFFSET 0) AS parsed`,
  "DROP TABLE lines",
  `CREATE UNIQUE INDEX ON markets (resolved_at DESC, id DESC) INCLUDE (${filtered})`,
  ...filtered.map((column) => `CREATE INDEX ON markets (${column})`),
  "CREATE INDEX ON markets USING gin (words)",
  "VACUUM (ANALYZE) markets",
];

/** Starts Express on PostgreSQL over the sample's markets, at `/markets`, `/facets` and `/total`. */
export async function startArchivePeer(bench: Bench): Promise<Target> {
  const { data, ends } = bench;
  const programs = { postgres: programOf("postgres"), initdb: programOf("initdb") };
  const lines = await data.lines();
  let server: TestPostgres | undefined;
  const open = async (folder: string) => {
    server = await openDatabase(programs, folder, settings);
    ends.defer(server.stop);
    return server;
  };
  const folder = await data.once("postgresql", async (place) => {
    await mkdir(place);
    await makeDatabase(programs, place);
    const client = await (await open(place)).connect();
    for (const statement of statements(lines)) await client.query(statement);
    await client.end();
  });
  const { env } = server ?? (await open(folder));
  const database = `postgresql://${env.PGUSER}@${env.PGHOST}:${env.PGPORT}/${env.PGDATABASE}`;
  const target = { port: await freePort(), headers: {} };
  const args = nodeArguments("test/bench/peers/archive.ts");
  await startTarget(ends, target, "/total", { args, env: { DATABASE: database } });
  return target;
}
