import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "./sql.ts";

/** How the same rows are spread over files. */
export interface Spelling {
  /** Files that each file becomes. */
  parts: number;
  /** Rows of a row group, at most. */
  rowGroup: number;
  codec: string;
  /** SQL over `key`, which tells rows apart, that rows are ordered by. */
  order: string;
}

/** The files of `writeSources`, where their parts go, and the columns that come first, some in another type. */
const files = [
  {
    from: "markets/part-00000",
    to: "markets/deeper/part",
    key: "id",
    first: { dimensions: "dimensions", flagged_count: "flagged_count::BIGINT" },
  },
  {
    from: "markets/odd",
    to: "markets/odd",
    key: "id",
    first: { question: "question", composite: "composite::USMALLINT" },
  },
  {
    from: "protocol_scores",
    to: "protocol_scores/part",
    key: "concat(slug, updated_at)",
    first: { metadata: "metadata", bri: "bri::UBIGINT" },
  },
];

/** Writes the sources of `writeSources` again: other files, other order of rows and columns, other integer types. */
export async function respellSources(directory: string, target: string, how: Spelling): Promise<void> {
  await mkdir(target, { recursive: true });
  await withDuckDb(target, async (sql) => {
    for (const { from, to, key, first } of files) {
      await mkdir(dirname(join(target, to)), { recursive: true });
      const columns = Object.entries(first).map(([name, value]) => `${value} AS ${name}`);
      const source = `SELECT ${columns.join(", ")}, * EXCLUDE (${Object.keys(first).join(", ")}), ${key} AS key
        FROM read_parquet(${quoted(join(directory, `${from}.parquet`))})`;
      for (let part = 0; part < how.parts; part += 1) {
        await sql.run(`COPY (SELECT * EXCLUDE (key) FROM (${source}) WHERE hash(key) % ${how.parts} = ${part}
            ORDER BY ${how.order}) TO ${quoted(join(target, `${to}-${part}.parquet`))}
          (FORMAT parquet, ROW_GROUP_SIZE ${how.rowGroup}, COMPRESSION ${how.codec})`);
      }
    }
  });
}
