import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { quoted } from "../../snapshots/sources/sql-literals.ts";
import type { Query } from "./archive-proxy.ts";
import { firstColumn } from "./archive-sql.ts";

/** Ids of the markets that match a query, in the archive's order, as SQL over the published Parquet files finds them. */
export type SqlFilter = (query: Query) => Promise<string[]>;

const dimensionKeys = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];

/** The other oracle: reads what filters look at out of all Parquet files of `markets` into a table of DuckDB. */
export async function sqlFilter(sql: DuckDBConnection, directory: string): Promise<SqlFilter> {
  const names = await readdir(directory, { recursive: true });
  const files = names.filter((name) => /^markets.*\.parquet$/.test(name));
  const score = (key: string) => `list_filter(dimensions, lambda d: d.key = '${key}')[1].score AS ${key}`;
  const columns = `id, category, tier, resolved_outcome, disputed, formula_version, weight_version, composite, ${dimensionKeys.map(score).join(", ")},
    make_timestamp(epoch_us(resolved_at) // 1000 * 1000) AS moment`;
  const all = files
    .map((name) => `SELECT ${columns} FROM ${quoted(join(directory, name))}`)
    .join(" UNION ALL ");
  const order = "ORDER BY moment DESC, id DESC";
  await sql.run(`CREATE TABLE archive AS SELECT *, row_number() OVER (${order}) - 1 AS place FROM (${all})`);
  const ids = await firstColumn<string>(sql, `SELECT id FROM archive ${order}`);
  return async (query) => {
    const places = await firstColumn<number>(
      sql,
      `SELECT place::INTEGER FROM archive WHERE ${whereOf(query)} ${order}`,
    );
    return places.map((place) => ids[place]!);
  };
}

/** The condition of a query over the columns of the table `archive`. */
export function whereOf(query: Query): string {
  const conditions = Object.entries(query).map(([name, value]) => conditionOf(name, String(value)));
  return ["true", ...conditions].join(" AND ");
}

function conditionOf(name: string, value: string): string {
  const [, end, field] = /^(min|max)_(\w+)$/.exec(name) ?? [];
  if (field) return `${field} ${end === "min" ? ">=" : "<="} ${Number(value)}`;
  const time = `(TIMESTAMPTZ ${quoted(value)})::TIMESTAMP`;
  switch (name) {
    case "category":
      return `regexp_full_match(category, ${quoted(escapedForRe2(value))}, 'i')`;
    case "outcome":
      return `resolved_outcome = ${quoted(value)}`;
    case "tier":
      return `tier IN (${value.split(",").map(quoted).join(", ")})`;
    case "formula_version":
    case "weight_version":
      return `${name} = ${quoted(value)}`;
    case "disputed":
      return `disputed = ${value}`;
    case "from":
      return `moment >= ${time}`;
    case "to":
      return value.includes("T") ? `moment <= ${time}` : `moment < DATE ${quoted(value)} + INTERVAL 1 DAY`;
    default:
      throw new Error(`the oracle knows no filter ${name}`);
  }
}

/** RE2 takes a backslash before any ASCII punctuation; control characters stand for themselves. */
function escapedForRe2(text: string): string {
  return text.replace(/[!-/:-@[-`{-~]/g, "\\$&");
}
