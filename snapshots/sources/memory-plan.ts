import { availableParallelism } from "node:os";
import type { DuckDBConnection } from "@duckdb/node-api";
import { fileList } from "./parquet.ts";
import type { SourceFile } from "./source-files.ts";

/** What reading may take. */
export interface MemoryPlan {
  megabytes: number;
  threads: number;
  warnings: string[];
}

/**
 * Decides how many threads read at once. Each holds about the pages of one row group, and writers such as
 * DuckDB make one page of all that a column has in a row group. A group too large for even one thread raises
 * the limit instead of failing, with a warning.
 */
export async function planMemory(
  connection: DuckDBConnection,
  files: readonly SourceFile[],
  { megabytes, threads = availableParallelism() }: { megabytes: number; threads?: number | undefined },
): Promise<MemoryPlan> {
  const largest = await largestRowGroup(connection, files);
  const needed = (readers: number) => Math.ceil(baseMegabytes + readers * (threadMegabytes + 2 * largest));
  if (needed(1) > megabytes) {
    const warning =
      `the largest row group has ${Math.ceil(largest)} MB before compression; reading may take ` +
      `${needed(1)} MB of memory, ${megabytes} MB with smaller ones`;
    return { megabytes: needed(1), threads: 1, warnings: [warning] };
  }
  let fitting = threads;
  while (fitting > 1 && needed(fitting) > megabytes) fitting -= 1;
  return { megabytes, threads: fitting, warnings: [] };
}

// Measured with DuckDB 1.5.6 on markets of 3.4 kB in row groups of 10,240 and 122,880.
const baseMegabytes = 100;
const threadMegabytes = 60;

/** Bytes of the largest row group before compression, in millions; 0 when no file can be read. */
async function largestRowGroup(connection: DuckDBConnection, files: readonly SourceFile[]): Promise<number> {
  const result = await connection.runAndReadAll(
    `SELECT coalesce(max(bytes), 0)::DOUBLE FROM (SELECT sum(total_uncompressed_size) AS bytes
     FROM parquet_metadata(${fileList(files)}) GROUP BY file_name, row_group_id)`,
  );
  return Number(result.getRows()[0]?.[0]) / 1e6;
}
