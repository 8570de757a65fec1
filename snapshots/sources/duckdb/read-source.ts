import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { SourceRefusal } from "../contract/refusals.ts";
import type { SourceTable } from "../contract/table-schema.ts";
import type { FileGroup } from "../files/file-groups.ts";
import { refuseChanges, type SourceDirectory, type SourceFile } from "../files/source-files.ts";
import { refuseUnreadable } from "../files/unreadable-files.ts";
import { withConnection } from "./duckdb.ts";
import { selectFromAll } from "./parquet.ts";

export interface ListedSource {
  directory: SourceDirectory;
  table: SourceTable;
  files: readonly SourceFile[];
  passed: readonly string[];
}

/** A source whose columns match the contract, open for queries. */
export interface OpenSource extends ListedSource {
  instance: DuckDBInstance;
  /** The files to read: all but unchanged ones. */
  groups: readonly FileGroup[];
}

/**
 * Runs queries over a source. Throws SourceRefusal when files have changed meanwhile or cannot be read. Other errors,
 * such as a full disk, pass through.
 */
export async function readSource<T>(
  source: OpenSource,
  work: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  try {
    const result = await withConnection(source.instance, work);
    await refuseChangedFiles(source);
    return result;
  } catch (error) {
    throw await causeOf(source, error);
  }
}

/** Throws SourceRefusal when the files are no longer those that were listed. */
export function refuseChangedFiles({ directory, table, files }: ListedSource): Promise<void> {
  return refuseChanges(directory, table.name, files);
}

/** The error to throw when reading has failed: the SourceRefusal of the files that caused it, or `error` itself. */
export async function causeOf(source: OpenSource, error: unknown): Promise<unknown> {
  if (error instanceof SourceRefusal) return error;
  try {
    await refuseChangedFiles(source);
    await withConnection(source.instance, (connection) => refuseUnreadable(connection, source.groups));
    return error;
  } catch (cause) {
    return cause;
  }
}

/** Counts only the files to read. */
export async function countRows(source: OpenSource): Promise<number> {
  if (source.groups.length === 0) return 0;
  return readSource(source, async (connection) => {
    const counts = selectFromAll(source.groups, "count(*) AS n");
    const result = await connection.runAndReadAll(`SELECT sum(n)::DOUBLE FROM (${counts})`);
    return Number(result.getRows()[0]?.[0]);
  });
}
