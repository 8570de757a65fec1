import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import type { Query } from "../http/archive-proxy.ts";
import { askedWords, plainWords } from "./plain-filter.ts";
import { firstColumn } from "./sql.ts";

/** Loads the markets of Parquet sources, and the words of their questions, which SQL cannot cut as the archive does. */
export async function loadMarkets(
  sql: DuckDBConnection,
  directory: string,
  markets: readonly HistoricalMarket[],
): Promise<void> {
  const files = quoted(join(directory, "markets", "*.parquet"));
  await sql.run(`CREATE TABLE markets AS SELECT *, epoch_ms(resolved_at) AS milliseconds
    FROM read_parquet(${files}, union_by_name = true)`);
  await sql.run("CREATE TABLE words (id VARCHAR, word VARCHAR)");
  const rows = markets.flatMap(({ id, question }) =>
    [...plainWords(question)].map((word) => `(${quoted(id)}, ${quoted(word)})`),
  );
  for (let at = 0; at < rows.length; at += 1000)
    await sql.run(`INSERT INTO words VALUES ${rows.slice(at, at + 1000).join(", ")}`);
}

/** The ids of the markets that a query selects, in the archive's order, as DuckDB finds them. */
export async function idsIn(sql: DuckDBConnection, query: Query): Promise<string[]> {
  const categories =
    query.category === undefined
      ? []
      : await firstColumn<string>(sql, "SELECT DISTINCT category FROM markets");
  const conditions = Object.entries(query).map(([name, value]) =>
    conditionOf(name, String(value), categories),
  );
  return firstColumn(
    sql,
    `SELECT id::VARCHAR FROM markets WHERE ${["true", ...conditions].join(" AND ")}
      ORDER BY milliseconds DESC, id::VARCHAR DESC`,
  );
}

function conditionOf(name: string, value: string, categories: readonly string[]): string {
  const [, end, field = name] = /^(min|max)_(.+)$/.exec(name) ?? [];
  const sign = end === "min" || name === "from" ? ">=" : "<=";
  if (field === "composite") return `composite ${sign} ${value}`;
  if (end !== undefined)
    return `list_filter(dimensions, lambda d: d.key = ${quoted(field)})[1].score ${sign} ${value}`;
  switch (name) {
    case "category": {
      // SQL has no simple case folding.
      const pattern = new RegExp(`^(?:${value.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")})$`, "iu");
      return `category IN (NULL, ${
        categories
          .filter((each) => pattern.test(each))
          .map(quoted)
          .join(", ") || "NULL"
      })`;
    }
    case "tier":
      return `tier IN (${value.split(",").map(quoted).join(", ")})`;
    case "disputed":
      return `disputed = ${value}`;
    case "from":
    case "to": {
      const day = name === "to" && !value.includes("T");
      return `milliseconds ${sign} ${Date.parse(day ? `${value}T23:59:59.999Z` : value)}`;
    }
    case "q":
      return [...askedWords(value)]
        .map(({ text, prefix }) => (prefix ? `starts_with(word, ${quoted(text)})` : `word = ${quoted(text)}`))
        .map((matches) => `id::VARCHAR IN (SELECT id FROM words WHERE ${matches})`)
        .join(" AND ");
    default:
      return `${name === "outcome" ? "resolved_outcome" : name} = ${quoted(value)}`;
  }
}
