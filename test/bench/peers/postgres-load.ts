import type { Client } from "pg";
import { labelColumns, loadLines, scoreColumns } from "./market-lines.ts";

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

/** Makes the table of all markets in the sources, with its indexes. */
export async function loadMarkets(
  sql: Client,
  { address, psql, sources, scratch }: { address: string; psql: string; sources: string; scratch: string },
): Promise<void> {
  await sql.query(tables);
  const options = ["-X", "-q", "-v", "ON_ERROR_STOP=1"];
  await loadLines([psql, address, ...options, "-c", "COPY markets FROM STDIN"], sources, scratch);
  for (const index of indexes) await sql.query(index);
}
