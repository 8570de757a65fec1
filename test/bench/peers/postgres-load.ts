import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import type { Client } from "pg";
import { forgeTiers } from "../../../schemas/scales.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { RenderedMarket } from "../../../snapshots/sources/sources.ts";

/** Scores that filters look at. */
export const scoreColumns = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];

const labels = ["category", "tier", "outcome", "formula_version", "weight_version"];
const filtered = [...labels, "disputed", "composite", ...scoreColumns];

/**
 * The record is text, as it is sent. It lies out of line, so that counting reads narrow rows; the large index holds all
 * that filters and facets look at in the archive's order, so that pages and counts need no row at all but those shown.
 */
const tables = `
  CREATE TABLE markets (
    resolved_at timestamptz NOT NULL, id uuid NOT NULL, ${labels.map((name) => `${name} text NOT NULL`).join(", ")},
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
  const copy = spawn(psql, [address, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "COPY markets FROM STDIN"], {
    stdio: ["pipe", "ignore", "pipe"],
  });
  const ended = Promise.all([once(copy, "close"), text(copy.stderr)]);
  const opened = await openSources(sources, { now: new Date(), temporaryDirectory: scratch });
  try {
    for await (const rows of opened.markets()) {
      if (!copy.stdin.write(rows.map(lineOf).join("")))
        await Promise.race([once(copy.stdin, "drain"), ended]);
    }
  } finally {
    copy.stdin.end();
    await opened.close();
  }
  const [[code], complaint] = await ended;
  if (code !== 0) throw new Error(`PostgreSQL does not take the markets: ${complaint}`);
  for (const index of indexes) await sql.query(index);
}

/** A line of COPY's text format. */
function lineOf(row: RenderedMarket): string {
  const { values } = row;
  const fields = [
    new Date(row.resolvedAt).toISOString(),
    row.id,
    values.category.toLowerCase(),
    forgeTiers[values.tier - 1]!,
    values.outcome,
    values.formula_version,
    values.weight_version,
    String(Boolean(values.disputed)),
    ...[values.composite, values.informed, values.integrity, values.oracle].map(String),
    ...[values.catalyst, values.design, values.counterparty].map(String),
    String(Buffer.from(row.json)),
  ];
  return `${fields.map((field) => field.replace(/[\\\t\n\r]/g, escaped)).join("\t")}\n`;
}

function escaped(character: string): string {
  return { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[character] ?? `\\${character}`;
}
