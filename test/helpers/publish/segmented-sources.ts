import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "../archive/sql.ts";
import { segmentedMarkets } from "./drawn-rows.ts";
import { loadSample } from "./sample-sources.ts";

/** Ids after which a segment ends, where a page has its 32 markets. */
const ends = segmentedMarkets(0, 300).flatMap(({ id }, index) => (index % 40 === 39 ? [id] : []));

/**
 * Writes sources of several segments into a folder of `folder`, in two files, each with markets of all times; `change`
 * is SQL of their rows. Returns the folder.
 */
export async function writeSegmented(
  folder: string,
  name: string,
  change = "FROM segmented",
): Promise<string> {
  const directory = join(folder, name);
  await mkdir(join(directory, "markets"), { recursive: true });
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, join(folder, "sample"), 300, { protocols: 5 });
    const list = `[${ends.map(quoted).join(", ")}]`;
    await sql.run(`CREATE TABLE segmented AS
      SELECT * EXCLUDE (place) REPLACE (CASE WHEN place % 40 = 0 THEN ${list}[(place // 40)::INTEGER] ELSE id END AS id)
      FROM (SELECT *, row_number() OVER (ORDER BY resolved_at, id) AS place FROM markets)`);
    await sql.run(`CREATE TABLE changed AS ${change}`);
    const copy = (query: string, file: string) =>
      sql.run(`COPY (${query}) TO ${quoted(join(directory, `${file}.parquet`))} (FORMAT parquet)`);
    await copy("FROM changed WHERE hash(id) % 2 = 0", "markets/a");
    await copy("FROM changed WHERE hash(id) % 2 = 1", "markets/b");
    await copy("FROM scores", "protocol_scores");
  });
  return directory;
}

/** About one row in fifty has another value in this column; the value is SQL. */
export const withBroken = (column: string, value: string) =>
  `SELECT * REPLACE (CASE WHEN hash(id) % 50 = 1 THEN ${value} ELSE ${column} END AS ${column}) FROM segmented`;
