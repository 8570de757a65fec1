import { rm } from "node:fs/promises";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";

// DuckDB alone: the rows of all markets as JSON lines, in gzip, on all cores and in no order.
const [sources, target] = process.argv.slice(2);
const instance = await DuckDBInstance.create(":memory:", {
  memory_limit: "1GB",
  temp_directory: `${target}.duckdb`,
  preserve_insertion_order: "false",
});
const sql = await instance.connect();
await sql.run("SET TimeZone = 'UTC'");
await sql.run(
  `COPY (FROM read_parquet(${quoted(join(sources!, "markets/*.parquet"))}))
   TO ${quoted(target!)} (FORMAT json, COMPRESSION gzip, PER_THREAD_OUTPUT true)`,
);
sql.closeSync();
instance.closeSync();
await rm(`${target}.duckdb`, { recursive: true, force: true });
