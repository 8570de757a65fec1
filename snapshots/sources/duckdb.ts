import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { quoted, textList } from "./sql-literals.ts";

/** How much of the machine a DuckDB session may take, and what it may touch. */
export interface SessionOptions {
  /** The most that DuckDB's buffers may take, in millions of bytes; the process takes some 300 on top. */
  memoryMegabytes: number;
  /** Where DuckDB spills; created by DuckDB when needed. */
  temporaryDirectory: string;
  /** Default: all cores. */
  threads?: number | undefined;
  /** Whether results and files keep the order of the rows they come from; it costs memory and time. */
  ordered: boolean;
  /** When given, the only files that SQL can read or write; absolute and free of symbolic links. */
  allowedPaths?: readonly string[];
}

/** An in-memory DuckDB with fixed settings: UTC, bounded memory, no extension ever fetched. */
export async function openSession(options: SessionOptions): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  try {
    for (const setting of settings(options)) await connection.run(`SET GLOBAL ${setting}`);
  } finally {
    connection.closeSync();
  }
  return instance;
}

function settings({ memoryMegabytes, temporaryDirectory, threads, ordered, allowedPaths }: SessionOptions) {
  return [
    "TimeZone = 'UTC'",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    // A cache of file contents would count against the memory limit and could outlive a change of the file.
    "enable_external_file_cache = false",
    // Gives memory that is freed beside that limit, such as the text of results, back to the system: some
    // 200 MB of the process's peak while markets are read, for a fifth of the processor time. Larger values
    // had no effect.
    "allocator_bulk_deallocation_flush_threshold = '16MB'",
    `preserve_insertion_order = ${ordered}`,
    `memory_limit = '${memoryMegabytes}MB'`,
    `temp_directory = ${quoted(temporaryDirectory)}`,
    ...(threads === undefined ? [] : [`threads = ${threads}`]),
    ...(allowedPaths ? [`allowed_paths = ${textList(allowedPaths)}`, "enable_external_access = false"] : []),
  ];
}

/** Runs `work` on a connection of its own. */
export async function withConnection<T>(
  instance: DuckDBInstance,
  work: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  const connection = await instance.connect();
  try {
    return await work(connection);
  } finally {
    connection.closeSync();
  }
}
