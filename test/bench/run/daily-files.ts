import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";

const days = 100;
const scores = "protocol_scores.parquet";
const fileOf = (day: number) => join("markets", `day-${String(day).padStart(3, "0")}.parquet`);
const from = (...path: string[]) => `read_parquet(${quoted(join(...path))}, hive_partitioning = false)`;

/** Writes a sample's markets as 100 files of equal size, by the time of resolution. */
export async function writeDaily(sources: string, folder: string): Promise<void> {
  await mkdir(join(folder, "markets"), { recursive: true });
  await cp(join(sources, scores), join(folder, scores));
  const parts = join(folder, ".parts");
  await withDuckDb(folder, async (sql) => {
    const all = from(sources, "markets/*.parquet");
    const steps = Array.from({ length: days - 1 }, (_, day) => (day + 1) / days);
    await sql.run(`CREATE TABLE ends AS
      SELECT list_sort(quantile_disc(resolved_at, [${steps.join(", ")}])) AS times FROM ${all}`);
    // Few rows wait in memory, so row groups are small. The files are written once more.
    await sql.run("SET partitioned_write_flush_threshold = 20000");
    await sql.run(`COPY (SELECT *, len(list_filter(times, lambda time: time < resolved_at)) AS day FROM ${all}, ends)
      TO ${quoted(parts)} (FORMAT parquet, PARTITION_BY (day))`);
    for (let day = 0; day < days; day += 1) {
      const rows = `SELECT * EXCLUDE (times) FROM ${from(parts, `day=${day}`, "*.parquet")} ORDER BY resolved_at`;
      await copy(sql, rows, join(folder, fileOf(day)));
    }
  });
  await rm(parts, { recursive: true });
}

/** Writes the same files with 0.1 percent new markets and 0.01 percent changed, all of them in the newest file. */
export async function editDaily(daily: string, folder: string, markets: number): Promise<void> {
  await cp(daily, folder, { recursive: true });
  const newest = join(folder, "markets", (await readdir(join(folder, "markets"))).sort().at(-1)!);
  await withDuckDb(folder, async (sql) => {
    await sql.run(`CREATE TABLE rows AS FROM ${from(newest)}`);
    await sql.run(`UPDATE rows SET question = concat(question, ' (edited)')
      WHERE id IN (SELECT id FROM rows ORDER BY hash(id, 1) LIMIT ${Math.max(1, Math.round(markets / 10_000))})`);
    await sql.run(`INSERT INTO rows SELECT * REPLACE (regexp_replace(md5(concat('new ', id)),
      '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5') AS id,
      (SELECT max(resolved_at) FROM rows) + to_seconds(1) AS resolved_at)
      FROM rows ORDER BY hash(id, 2) LIMIT ${Math.max(1, Math.round(markets / 1000))}`);
    await copy(sql, "FROM rows ORDER BY resolved_at", newest);
  });
}

const copy = (sql: DuckDBConnection, query: string, file: string) =>
  sql.run(`COPY (${query}) TO ${quoted(file)} (FORMAT parquet, COMPRESSION zstd)`);

async function withDuckDb(folder: string, work: (sql: DuckDBConnection) => Promise<void>): Promise<void> {
  const settings = { memory_limit: "2GB", temp_directory: join(folder, ".duckdb") };
  const instance = await DuckDBInstance.create(":memory:", settings);
  const sql = await instance.connect();
  try {
    await work(sql);
  } finally {
    sql.closeSync();
    instance.closeSync();
  }
}
