import type { DuckDBConnection } from "@duckdb/node-api";
import type { FileField } from "../contract/file-column.ts";
import { matchColumns } from "../contract/match-columns.ts";
import { RefusalList } from "../contract/refusals.ts";
import { sizeRules } from "../contract/row-checks.ts";
import type { RowRule, SourceTable } from "../contract/table-schema.ts";
import { columnsOf, foldCase } from "../duckdb/duckdb.ts";
import { type Column, ownColumns, renamedColumns } from "../duckdb/own-names.ts";
import { type AlikeFiles, readingFault, readParquet } from "../duckdb/parquet.ts";
import type { SourceFile } from "./source-files.ts";

/**
 * Files of a source with identical columns. Given a list of files, DuckDB takes the columns of the first one and
 * silently drops what the others have besides, so only such files are read together.
 */
export interface FileGroup extends AlikeFiles {
  files: SourceFile[];
  fields: readonly FileField[];
  /** The table's row rules, and rules for the size of these files' lists. */
  rowRules: readonly RowRule[];
  /** In lower case, including columns that the contract does not name. */
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
    let columns = await describe(connection, file, refusals, false);
    let match = matchColumns(table.fields, ownOf(columns));
    // Only faults make it worth reading the schema that the file itself has.
    if (columns.length > 0 && match.faults.length > 0) {
      columns = await describe(connection, file, refusals, true);
      match = matchColumns(table.fields, ownOf(columns));
    }
    // JSON of a type distinguishes JSON columns from text. The type's name does not.
    const own = ownOf(columns);
    const signature = JSON.stringify(own.map(([name, type]) => [name, type.toJson()]));
    if (columns.length === 0) continue;
    const { fields, faults, extra } = match;
    for (const fault of faults) refusals.add({ file: file.name, ...fault });
    if (faults.length > 0) continue;
    const group = bySignature.get(signature);
    if (group) group.files.push(file);
    else {
      const rowRules = [...table.rowRules, ...sizeRules(fields)];
      bySignature.set(signature, {
        files: [file],
        fields,
        rowRules,
        renamed: renamedColumns(columns, fields),
        columns: new Set(own.map(([name]) => foldCase(name))),
        extra: [...new Set(extra)],
        signature,
      });
    }
  }
  refusals.throwIfAny();
  return [...bySignature.values()];
}

const ownOf = (columns: readonly Column[]) => columns.map(({ own }) => own);

/** When the file cannot be read, adds a refusal and returns no columns. */
async function describe(
  connection: DuckDBConnection,
  file: SourceFile,
  refusals: RefusalList,
  asked: boolean,
): Promise<Column[]> {
  try {
    const result = await connection.run(`SELECT * FROM ${readParquet({ files: [file] })} LIMIT 0`);
    return await ownColumns(connection, file, columnsOf(result), asked);
  } catch (error) {
    refusals.add({ file: file.name, rule: readingFault(error) });
    return [];
  }
}
