import type { DuckDBConnection, DuckDBType } from "@duckdb/node-api";
import type { FileField } from "../contract/file-column.ts";
import { matchColumns } from "../contract/match-columns.ts";
import { sizeRules } from "../contract/record-size.ts";
import { RefusalList } from "../contract/refusals.ts";
import type { RowRule, SourceTable } from "../contract/table-schema.ts";
import { readingFault, readParquet } from "../duckdb/parquet.ts";
import type { SourceFile } from "./source-files.ts";

/**
 * The files of a source that have identical columns. Given a list of files, DuckDB takes the columns of the first one
 * and silently drops what the others have besides, so only such files are read together.
 */
export interface FileGroup {
  files: SourceFile[];
  fields: readonly FileField[];
  /** The table's row rules, and rules for the size of these files' lists. */
  rowRules: readonly RowRule[];
  /** The names of all columns, including those that the contract does not name. */
  columns: ReadonlySet<string>;
  /** Columns and struct members that the contract does not name. */
  extra: readonly string[];
  /** The names and types of all columns, down to the members of structs, as JSON. */
  signature: string;
}

/**
 * Matches every file's columns with the contract. Throws SourceRefusal naming the file, column and type of each fault.
 */
export async function groupFiles(
  connection: DuckDBConnection,
  table: SourceTable,
  files: readonly SourceFile[],
): Promise<FileGroup[]> {
  const refusals = new RefusalList();
  const bySignature = new Map<string, FileGroup>();
  for (const file of files) {
    const columns = await describe(connection, file, refusals);
    // Written as JSON, types tell JSON columns from text. Their names do not.
    const signature = JSON.stringify([...columns].map(([name, type]) => [name, type.toJson()]));
    if (columns.size === 0) continue;
    const { fields, faults, extra } = matchColumns(table.fields, columns);
    for (const fault of faults) refusals.add({ file: file.name, ...fault });
    const group = bySignature.get(signature);
    if (group) group.files.push(file);
    else {
      const rowRules = [...table.rowRules, ...sizeRules(fields)];
      bySignature.set(signature, {
        files: [file],
        fields,
        rowRules,
        columns: new Set(columns.keys()),
        extra: [...new Set(extra)],
        signature,
      });
    }
  }
  refusals.throwIfAny();
  return [...bySignature.values()];
}

/** The types of a file's columns by name. When the file cannot be read, adds a refusal and returns none. */
async function describe(
  connection: DuckDBConnection,
  file: SourceFile,
  refusals: RefusalList,
): Promise<Map<string, DuckDBType>> {
  try {
    const result = await connection.run(`SELECT * FROM ${readParquet([file])} LIMIT 0`);
    const types = result.columnTypes();
    return new Map(result.columnNames().map((name, index) => [name, types[index]!]));
  } catch (error) {
    refusals.add({ file: file.name, rule: readingFault(error) });
    return new Map();
  }
}
