import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";

// The sample's files as an increment finds them, in one of three ways: 0.1 % new markets, and 0.01 % changed.

/** Where the changed markets are: among the newest twentieth, or anywhere. The new ones are in a file of their own. */
export type Edit = "newest" | "spread";

const scores = "protocol_scores.parquet";
const from = (path: string, more = "") => `read_parquet(${quoted(path)}${more})`;
const copy = (sql: DuckDBConnection, query: string, file: string) =>
  sql.run(`COPY (${query}) TO ${quoted(file)} (FORMAT parquet, COMPRESSION zstd)`);
const newId = `regexp_replace(md5(concat('new ', id)),
  '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5') AS id`;
const inDuckDb = (folder: string, work: (sql: DuckDBConnection) => Promise<void>) =>
  withDuckDb(folder, work, "2GB");
const shareOf = (markets: number, part: number) => Math.max(1, Math.round(markets / part));

/** Writes a sample's files with an edit. */
export async function writeEdited(sources: string, folder: string, edit: Edit, markets: number) {
  await mkdir(join(folder, "markets"), { recursive: true });
  await cp(join(sources, scores), join(folder, scores));
  const every = from(join(sources, "markets/*.parquet"));
  await inDuckDb(folder, async (sql) => {
    const among = Math.ceil(edit === "newest" ? markets / 20 : markets);
    await sql.run(`CREATE TABLE changed AS SELECT id FROM
      (SELECT id FROM ${every} ORDER BY resolved_at DESC, id DESC LIMIT ${among})
      ORDER BY hash(id, 1) LIMIT ${shareOf(markets, 10_000)}`);
    await sql.run(`CREATE TABLE added AS SELECT id, row_number() OVER (ORDER BY id) AS n FROM
      (SELECT id FROM ${every} ORDER BY hash(id, 2) LIMIT ${shareOf(markets, 1000)})`);
    const question = "CASE WHEN id IN (FROM changed) THEN concat(question, ' (edited)') ELSE question END";
    for (const name of await readdir(join(sources, "markets"))) {
      const file = join("markets", name);
      const rows = `SELECT * REPLACE (${question} AS question) FROM ${from(join(sources, file))}`;
      await copy(sql, rows, join(folder, file));
    }
    const newest = `(SELECT max(resolved_at) FROM ${every}) + to_seconds(n)`;
    const moment = edit === "newest" ? newest : "resolved_at + to_seconds(1)";
    const rows = `SELECT * EXCLUDE (n) REPLACE (${newId}, ${moment} AS resolved_at)
      FROM ${every} JOIN added USING (id)`;
    await copy(sql, rows, join(folder, "markets/part-added.parquet"));
  });
}

const days = 100;

/** Writes a sample's markets as 100 files of equal size, by the time of resolution. */
export async function writeDaily(sources: string, folder: string): Promise<void> {
  await mkdir(join(folder, "markets"), { recursive: true });
  await cp(join(sources, scores), join(folder, scores));
  const parts = join(folder, ".parts");
  const all = from(join(sources, "markets/*.parquet"));
  await inDuckDb(folder, async (sql) => {
    const steps = Array.from({ length: days - 1 }, (_, day) => (day + 1) / days);
    await sql.run(`CREATE TABLE ends AS
      SELECT list_sort(quantile_disc(resolved_at, [${steps.join(", ")}])) AS times FROM ${all}`);
    // Few rows wait in memory, so row groups are small. The files are written once more.
    await sql.run("SET partitioned_write_flush_threshold = 20000");
    await sql.run(`COPY (SELECT *, len(list_filter(times, lambda time: time < resolved_at)) AS day FROM ${all}, ends)
      TO ${quoted(parts)} (FORMAT parquet, PARTITION_BY (day))`);
    for (let day = 0; day < days; day += 1) {
      const part = from(join(parts, `day=${day}`, "*.parquet"), ", hive_partitioning = false");
      const file = join(folder, `markets/day-${String(day).padStart(3, "0")}.parquet`);
      await copy(sql, `SELECT * EXCLUDE (times) FROM ${part} ORDER BY resolved_at`, file);
    }
  });
  await rm(parts, { recursive: true });
}

/** Writes the same files, of which only the newest differs: all new and changed markets are in it. */
export async function editDaily(daily: string, folder: string, markets: number): Promise<void> {
  await cp(daily, folder, { recursive: true });
  const newest = join(folder, "markets", (await readdir(join(folder, "markets"))).sort().at(-1)!);
  await inDuckDb(folder, async (sql) => {
    await sql.run(`CREATE TABLE rows AS FROM ${from(newest)}`);
    await sql.run(`UPDATE rows SET question = concat(question, ' (edited)')
      WHERE id IN (SELECT id FROM rows ORDER BY hash(id, 1) LIMIT ${shareOf(markets, 10_000)})`);
    const moment = "(SELECT max(resolved_at) FROM rows) + to_seconds(1)";
    await sql.run(`INSERT INTO rows SELECT * REPLACE (${newId}, ${moment} AS resolved_at)
      FROM rows ORDER BY hash(id, 2) LIMIT ${shareOf(markets, 1000)}`);
    await copy(sql, "FROM rows ORDER BY resolved_at", newest);
  });
}
