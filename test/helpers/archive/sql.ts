import { join } from "node:path";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";

/** Works with a DuckDB that has none of the project's settings but the time zone. It spills to `folder`. */
export async function withDuckDb<T>(
  folder: string,
  work: (sql: DuckDBConnection) => Promise<T>,
  memory = "500MB",
): Promise<T> {
  const settings = { memory_limit: memory, temp_directory: join(folder, "spill") };
  const instance = await DuckDBInstance.create(":memory:", settings);
  const connection = await instance.connect();
  await connection.run("SET TimeZone = 'UTC'");
  try {
    return await work(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Runs one SQL statement in a DuckDB of its own. */
export async function runSql(folder: string, statement: string): Promise<void> {
  await withDuckDb(folder, (sql) => sql.run(statement));
}

/** The values of the first column of a query. */
export async function firstColumn<T>(sql: DuckDBConnection, query: string): Promise<T[]> {
  const reader = await sql.runAndReadAll(query);
  return (reader.getColumns()[0] ?? []) as T[];
}
