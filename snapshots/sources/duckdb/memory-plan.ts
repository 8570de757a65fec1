import { availableParallelism } from "node:os";
import type { DuckDBConnection } from "@duckdb/node-api";
import type { SourceFile } from "../files/source-files.ts";
import { fileList } from "./parquet.ts";

/** How much memory and how many threads reading may use. */
export interface MemoryPlan {
  megabytes: number;
  threads: number;
  warnings: string[];
}

interface MemoryLimits {
  megabytes: number;
  threads?: number | undefined;
}

/** Decides how these files are read. */
export async function planMemory(
  connection: DuckDBConnection,
  files: readonly SourceFile[],
  limits: MemoryLimits,
): Promise<MemoryPlan> {
  return planFor(await largestRowGroup(connection, files), limits);
}

/**
 * Decides how many threads read at once, by the megabytes of the largest row group before compression. Each holds about
 * one row group in memory, because writers such as DuckDB put all values of a column in a row group into one page. When
 * a row group is too large even for one thread, the limit is raised, with a warning, instead of failing.
 */
export function planFor(
  largest: number,
  { megabytes, threads = availableParallelism() }: MemoryLimits,
): MemoryPlan {
  const needed = (readers: number) =>
    Math.ceil(baseMegabytes + readers * (threadMegabytes + (readers > 1 ? 7 : 2) * largest));
  if (needed(1) > megabytes) {
    const warning =
      `the largest row group takes ${Math.ceil(largest)} MB uncompressed; reading may need ` +
      `${needed(1)} MB of memory; with smaller row groups ${megabytes} MB suffice`;
    return { megabytes: needed(1), threads: 1, warnings: [warning] };
  }
  let fitting = threads;
  while (fitting > 1 && needed(fitting) > megabytes) fitting -= 1;
  return { megabytes, threads: fitting, warnings: [] };
}

// Measured with DuckDB 1.5.6 on markets of 3.4 kB in row groups of 10,240 and 122,880 rows. Two threads failed with 620 MB
// on row groups of 25,000 rows, which are 39 MB, and went through with 700.
const baseMegabytes = 100;
const threadMegabytes = 60;

/** Before compression, in millions of bytes; 0 when no file can be read. */
async function largestRowGroup(connection: DuckDBConnection, files: readonly SourceFile[]): Promise<number> {
  const result = await connection.runAndReadAll(
    `SELECT coalesce(max(bytes), 0)::DOUBLE FROM (SELECT sum(total_uncompressed_size) AS bytes
     FROM parquet_metadata(${fileList(files)}) GROUP BY file_name, row_group_id)`,
  );
  return Number(result.getRows()[0]?.[0]) / 1e6;
}
