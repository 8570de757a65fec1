import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { withConnection } from "../duckdb.ts";
import { faultsOfRow, soundRow } from "./checks.ts";
import { refuseChanges, type SourceDirectory, type SourceFile } from "./files.ts";
import type { FileGroup, GroupedSource } from "./groups.ts";
import { readParquet, selectFromAll } from "./parquet.ts";
import { refuseUnreadable } from "./reading.ts";
import { placesPerRule, RefusalList } from "./refusals.ts";
import type { SourceTable } from "./shape.ts";
import { SourceRefusal } from "./sources.ts";

/** One source and the files it consists of. */
export interface ListedSource {
  directory: SourceDirectory;
  table: SourceTable;
  files: readonly SourceFile[];
}

/** A source whose columns have been compared with the contract. */
export interface OpenSource extends ListedSource, GroupedSource {
  instance: DuckDBInstance;
}

/** Rows looked at for diagnosis in one file: they show which rules are broken, not every place. */
const diagnosedRows = 10_000;

/**
 * Runs queries over a source. Files that changed meanwhile, or cannot be read, end it in SourceRefusal;
 * other errors, such as a full disk, pass through.
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

/** What to throw for an error of reading: the refusal of the files that explain it, or the error itself. */
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

/** Throws SourceRefusal naming what is wrong with the rows that break a rule. */
export async function refuseRows(source: OpenSource): Promise<never> {
  const refusals = new RefusalList();
  await withConnection(source.instance, async (connection) => {
    for (const group of source.groups) {
      for (const file of group.files) await diagnose(connection, source.table, group, file, refusals);
    }
  });
  refusals.throwIfAny();
  // Only a file that changed between the two looks can do that.
  await refuseChangedFiles(source);
  throw new Error(`${source.table.name}: a row breaks a rule, but none is found to`);
}

async function diagnose(
  connection: DuckDBConnection,
  { label, rowRules }: SourceTable,
  { fields, columns }: FileGroup,
  file: SourceFile,
  refusals: RefusalList,
): Promise<void> {
  const result = await connection.stream(
    `SELECT ${rowNumber(columns)}::VARCHAR, ${label}, to_json(${faultsOfRow(fields, rowRules)})::VARCHAR
     FROM ${readParquet([file])} WHERE NOT ${soundRow(fields, rowRules)} LIMIT ${diagnosedRows}`,
  );
  for await (const rows of result.yieldRows()) {
    for (const [row, id, faults] of rows) {
      for (const fault of JSON.parse(String(faults))) {
        refusals.add({ file: file.name, row: describeRow(row, id), ...fault });
      }
    }
  }
}

/** DuckDB numbers a file's rows, unless a column has the name it gives to that. */
function rowNumber(columns: ReadonlySet<string>): string {
  return columns.has("file_row_number") ? "NULL" : "file_row_number";
}

function describeRow(row: unknown, label: unknown): string {
  const shown = typeof label === "string" ? label.slice(0, 100) : "null";
  return row === null ? shown : `row ${row} (${shown})`;
}

/** Rows of all files. */
export function countRows(source: OpenSource): Promise<number> {
  return readSource(source, async (connection) => {
    const counts = selectFromAll(source.groups, "count(*) AS n");
    const result = await connection.runAndReadAll(`SELECT sum(n)::DOUBLE FROM (${counts})`);
    return Number(result.getRows()[0]?.[0]);
  });
}

/** A key that no two rows may share: SQL over a row's columns. Rows whose key is null break another rule. */
export interface UniqueKey {
  key: string;
  column: string;
  rule: string;
}

/** Throws SourceRefusal naming rows that share a key. */
export async function refuseDuplicates(source: OpenSource, unique: UniqueKey): Promise<void> {
  const { key } = unique;
  await readSource(source, async (connection) => {
    const result = await connection.runAndReadAll(
      `SELECT key::VARCHAR FROM (${selectFromAll(source.groups, `${key} AS key`)}) WHERE key IS NOT NULL
       GROUP BY key HAVING count(*) > 1 LIMIT ${placesPerRule}`,
    );
    const keys = result.getRows().map(([value]) => String(value));
    if (keys.length > 0) await refuseKeys(connection, source, unique, keys);
  });
}

async function refuseKeys(
  connection: DuckDBConnection,
  { table, groups }: OpenSource,
  { key, column, rule }: UniqueKey,
  keys: readonly string[],
): Promise<void> {
  const refusals = new RefusalList();
  for (const { files, columns } of groups) {
    for (const file of files) {
      const places = await connection.runAndReadAll(
        `SELECT ${rowNumber(columns)}::VARCHAR, ${table.label}, ${key}::VARCHAR AS key
         FROM ${readParquet([file])} WHERE list_contains(from_json($keys, '["VARCHAR"]'), ${key}::VARCHAR)
         ORDER BY key LIMIT ${placesPerRule}`,
        { keys: JSON.stringify(keys) },
      );
      for (const [row, label, value] of places.getRows()) {
        refusals.add({ file: file.name, row: describeRow(row, label), column, value: String(value), rule });
      }
    }
  }
  refusals.throwIfAny();
}
