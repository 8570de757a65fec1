import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { askedWords, plainWords } from "./archive-plain-words.ts";
import type { Query } from "./archive-proxy.ts";
import { firstColumn } from "./archive-sql.ts";

/**
 * Ids of the markets that match a query, in the archive's order, as SQL over the published Parquet files finds them.
 */
export type SqlFilter = (query: Query) => Promise<string[]>;

const dimensionKeys = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];

/** The other oracle: reads what filters look at out of all Parquet files of `markets` into a table of DuckDB. */
export async function sqlFilter(sql: DuckDBConnection, directory: string): Promise<SqlFilter> {
  const names = await readdir(directory, { recursive: true });
  const files = names.filter((name) => /^markets.*\.parquet$/.test(name));
  const score = (key: string) => `list_filter(dimensions, lambda d: d.key = '${key}')[1].score AS ${key}`;
  const columns = `id, category, tier, resolved_outcome, disputed, formula_version, weight_version, composite, question, ${dimensionKeys.map(score).join(", ")},
    make_timestamp(epoch_us(resolved_at) // 1000 * 1000) AS moment`;
  const all = files
    .map((name) => `SELECT ${columns} FROM ${quoted(join(directory, name))}`)
    .join(" UNION ALL ");
  const order = "ORDER BY moment DESC, id DESC";
  await sql.run(`CREATE TABLE archive AS SELECT *, row_number() OVER (${order}) - 1 AS place FROM (${all})`);
  await addWords(sql, directory);
  const ids = await firstColumn<string>(sql, `SELECT id FROM archive ${order}`);
  return async (query) => {
    const places = await firstColumn<number>(
      sql,
      `SELECT place::INTEGER FROM archive WHERE ${whereOf(query)} ${order}`,
    );
    return places.map((place) => ids[place]!);
  };
}

/** Gives every market its list of words, which DuckDB cannot cut: it has no NFKC. */
async function addWords(sql: DuckDBConnection, directory: string): Promise<void> {
  const questions = await firstColumn<string>(sql, "SELECT DISTINCT question FROM archive");
  const lines = questions.map((question) => JSON.stringify({ question, words: [...plainWords(question)] }));
  const file = join(directory, "words.ndjson");
  await writeFile(file, lines.join("\n"));
  const columns = "{question: 'VARCHAR', words: 'VARCHAR[]'}";
  const words = `read_json(${quoted(file)}, format = 'newline_delimited', columns = ${columns})`;
  await sql.run(`CREATE OR REPLACE TABLE archive AS SELECT * FROM archive JOIN ${words} USING (question)`);
  await rm(file);
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
    case "q": {
      const each = askedWords(value).map(({ text, prefix }) =>
        prefix
          ? `len(list_filter(words, lambda word: starts_with(word, ${quoted(text)}))) > 0`
          : `list_contains(words, ${quoted(text)})`,
      );
      return each.join(" AND ");
    }
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
