import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBResult,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { literalPath, quoted, textList } from "./sql-literals.ts";

/** How much of the machine a DuckDB session may use, and which files it may access. */
export interface SessionOptions {
  /** The memory limit of DuckDB's buffers, in millions of bytes. The process takes about 300 more. */
  memoryMegabytes: number;
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

/** Opens an in-memory DuckDB with fixed settings: UTC, limited memory, and no downloads of extensions. */
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

function settings(options: SessionOptions) {
  const { memoryMegabytes, temporaryDirectory, threads, ordered } = options;
  const { allowedPaths, trusted = false } = options;
  return [
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
