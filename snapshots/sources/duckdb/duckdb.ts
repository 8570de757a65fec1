import { availableParallelism } from "node:os";
import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBResult,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { messageOf } from "../../store/errors.ts";
import type { SourceFile } from "../files/source-files.ts";
import { literalPath, quoted, textList } from "./sql-literals.ts";

/** How much of the machine a DuckDB session may use, and which files it may access. */
export interface SessionOptions {
  /** The memory limit of DuckDB's buffers, in millions of bytes; default 600. The process takes about 300 more. */
  memoryMegabytes?: number | undefined;
  /** The folder for spill files. DuckDB creates it when needed. */
  temporaryDirectory: string;
  /** Default: all cores. */
  threads?: number | undefined;
  /** Whether results and files keep the order of the rows they come from, which costs memory and time. */
  ordered: boolean;
  /** The only files that SQL can read or write, as absolute paths without symbolic links. Default: all. */
  allowedPaths?: readonly string[];
  /**
   * Lets SQL reach everything else, too, until it sets `enable_external_access` to false itself. The allowed paths
   * stay.
   */
  trusted?: boolean;
}

const defaultMegabytes = 600;

/** Opens an in-memory DuckDB with fixed settings: UTC, limited memory, and no downloads of extensions. */
export async function openSession(options: SessionOptions): Promise<DuckDBInstance> {
  const { memoryMegabytes = defaultMegabytes, temporaryDirectory, threads, ordered } = options;
  const { allowedPaths, trusted = false } = options;
  const settings = [
    "TimeZone = 'UTC'",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    // A cache of file contents would count against the memory limit, and might not notice that a file has changed.
    "enable_external_file_cache = false",
    // Returns freed memory that does not count against the limit, such as the text of results, to the system. Returning
    // that of every chunk costs more: with 16 MB here, reading markets takes a fifth more processor time.
    "allocator_bulk_deallocation_flush_threshold = '64MB'",
    `preserve_insertion_order = ${ordered}`,
    `memory_limit = '${memoryMegabytes}MB'`,
    `temp_directory = ${quoted(temporaryDirectory)}`,
    ...(threads === undefined ? [] : [`threads = ${threads}`]),
    // DuckDB looks up the pattern of a path here, too.
    ...(allowedPaths
      ? [
          `allowed_paths = ${textList([...new Set(allowedPaths.flatMap((path) => [path, literalPath(path)]))])}`,
        ]
      : []),
    ...(allowedPaths && !trusted ? ["enable_external_access = false"] : []),
  ];
  const instance = await DuckDBInstance.create(":memory:");
  await withConnection(instance, async (connection) => {
    for (const setting of settings) await connection.run(`SET GLOBAL ${setting}`);
  });
  return instance;
}

/** Closes the connection after `work`. */
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

/** The only value of a query's only row, as a number. */
export async function scalar(connection: DuckDBConnection, query: string): Promise<number> {
  const result = await connection.runAndReadAll(`SELECT (${query})::DOUBLE`);
  return Number(result.getRows()[0]?.[0]);
}

/** Opens a session for `work` alone. */
export async function inSession<T>(
  options: SessionOptions,
  work: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  const instance = await openSession(options);
  try {
    return await withConnection(instance, work);
  } finally {
    instance.closeSync();
  }
}

const integerTypes = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
]);

/** A column, or a member of a struct. */
export type NamedType = readonly [name: string, type: DuckDBType];

/** DuckDB compares names in this form. */
export const foldCase = (name: string) => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Parquet's integer types. */
export function isInteger(type: DuckDBType): boolean {
  return integerTypes.has(type.typeId);
}

/** DuckDB's JSON type is text with an alias. */
export function isText(type: DuckDBType): boolean {
  return type.typeId === DuckDBTypeId.VARCHAR && type.alias === undefined;
}

export function columnsOf(result: DuckDBResult): NamedType[] {
  return result.columnNames().map((name, index) => [name, result.columnType(index)]);
}

export function membersOf(type: DuckDBStructType): NamedType[] {
  return type.entryNames.map((name, index) => [name, type.entryTypes[index]!]);
}

interface MemoryLimits extends Pick<SessionOptions, "memoryMegabytes" | "threads"> {
  /** Whether rows are compared with known ones, which one stream reads. */
  isCompared?: boolean | undefined;
}

/** Returns sentences for the operator. */
export function limitMemory(
  instance: DuckDBInstance,
  files: readonly SourceFile[],
  limits: MemoryLimits,
): Promise<string[]> {
  return withConnection(instance, async (connection) => {
    // Before compression; 0 when no file can be read.
    const largest = await scalar(
      connection,
      `SELECT coalesce(max(bytes), 0) FROM (SELECT sum(total_uncompressed_size) AS bytes
       FROM parquet_metadata(${fileList(files)}) GROUP BY file_name, row_group_id)`,
    );
    const { megabytes, threads, warnings } = planFor(largest / 1e6, limits);
    await connection.run(`SET GLOBAL memory_limit = '${megabytes}MB'`);
    await connection.run(`SET GLOBAL threads = ${threads}`);
    return warnings;
  });
}

/**
 * Decides how many threads read at once, by the megabytes of the largest row group before compression. Each holds about
 * one row group in memory, because writers such as DuckDB put all values of a column in a row group into one page. When
 * a row group is too large even for one thread, the limit is raised, with a warning, instead of failing.
 */
export function planFor(largest: number, limits: MemoryLimits) {
  const { memoryMegabytes: megabytes = defaultMegabytes, threads = availableParallelism() } = limits;
  const ofSeveral = limits.isCompared ? 2.3 : 7;
  const needed = (readers: number) =>
    Math.ceil(baseMegabytes + readers * (threadMegabytes + (readers > 1 ? ofSeveral : 2) * largest));
  if (needed(1) > megabytes) {
    const warning =
      `the largest row group takes ${Math.ceil(largest)} MB uncompressed; reading may need ` +
      `${needed(1)} MB of memory; with smaller row groups ${megabytes} MB suffice`;
    return { megabytes: needed(1), threads: 1, warnings: [warning] };
  }
  let fitting = threads;
  while (fitting > 1 && needed(fitting) > megabytes) fitting -= 1;
  return { megabytes, threads: fitting, warnings: [] as string[] };
}

// Measured with DuckDB 1.5.6 on markets of 3.4 kB in row groups of 10,240 and 122,880 rows. Two threads that read all
// markets failed with 620 MB on row groups of 25,000 rows, which are 39 MB, and went through with 700: each of their
// streams has row groups of its own for every thread. Two that compared markets, all of which differed, failed with 320
// and 480 MB on row groups of 42 and 79 MB, and went through with 380 and 540.
const baseMegabytes = 100;
const threadMegabytes = 60;

export function fileList(files: readonly SourceFile[]): string {
  return textList(files.map(({ path }) => literalPath(path)));
}

export interface AlikeFiles {
  files: readonly SourceFile[];
  /** SQL of the columns under their own names, where DuckDB has given them others. */
  renamed?: readonly string[] | undefined;
}

export function readParquet({ files, renamed }: AlikeFiles): string {
  const rows = `read_parquet(${fileList(files)}, hive_partitioning = false, union_by_name = false)`;
  return renamed ? `(SELECT ${renamed.join(", ")} FROM ${rows})` : rows;
}

export function selectFromAll(groups: readonly AlikeFiles[], expressions: string, where = "true"): string {
  return groups
    .map((group) => `SELECT ${expressions} FROM ${readParquet(group)} WHERE ${where}`)
    .join(" UNION ALL ");
}

/** What DuckDB says about a file that it cannot read, on one line. Throws errors that are not the file's fault. */
export function readingFault(error: unknown): string {
  const [line = ""] = faultOf(error).split("\n");
  const unfinished = /too small to be a Parquet file|[Nn]o magic bytes/.test(line);
  return `cannot be read: ${line}${unfinished ? "; it is empty, or was not written to its end" : ""}`;
}

export const isOutOfMemory = (error: unknown) => messageOf(error).startsWith("Out of Memory");

/** What DuckDB says about data or SQL. Throws errors that are the fault of neither. */
export function faultOf(error: unknown): string {
  const message = messageOf(error);
  if (/^(Out of Memory|INTERRUPT)|No space left on device/.test(message)) throw error;
  return message;
}
