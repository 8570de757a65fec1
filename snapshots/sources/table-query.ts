import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { faultsOfRow, soundRow } from "./checks.ts";
import type { SourceTable } from "./column-shape.ts";
import { withConnection } from "./duckdb.ts";
import type { FileGroup, GroupedSource } from "./file-groups.ts";
import { refuseChanges, type SourceDirectory, type SourceFile } from "./files.ts";
import { readParquet, selectFromAll } from "./parquet.ts";
import { placesPerRule, type Refusal, RefusalList, SourceRefusal } from "./refusals.ts";
import { jsonOfRow } from "./render-json.ts";
import { maxRecordBytes, recordRule } from "./size.ts";
import { refuseUnreadable } from "./unreadable-files.ts";

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
  await refuseLarge(source);
  // Only a file that changed between the two looks can do that.
  await refuseChangedFiles(source);
  throw new Error(`${source.table.name}: a row breaks a rule, but none is found to`);
}

async function diagnose(
  connection: DuckDBConnection,
  { label }: SourceTable,
  { fields, rowRules, columns }: FileGroup,
  file: SourceFile,
  refusals: RefusalList,
): Promise<void> {
  const row = rowNumber(columns);
  const result = await connection.runAndReadAll(
    `WITH broken AS (SELECT ${row}::BIGINT AS row, ${label} AS label, ${faultsOfRow(fields, rowRules)} AS faults
       FROM ${readParquet([file])} WHERE NOT ${soundRow(fields, rowRules)}),
     single AS (SELECT row, label, unnest(faults) AS fault, generate_subscripts(faults, 1) AS place FROM broken),
     named AS (SELECT fault.rule AS rule, count(*) AS total, min(place) AS place,
         arg_min({'row': row, 'label': left(label, 100), 'column': fault.column, 'value': fault.value},
           coalesce(row, 0) * 1000000 + place, ${placesPerRule}) AS places
       FROM single GROUP BY ALL)
     SELECT rule, total::DOUBLE, to_json(places)::VARCHAR FROM named ORDER BY places[1].row, place, rule`,
  );
  for (const [rule, total, json] of result.getRows()) {
    const places: { row: number | null; label: string | null; column: string; value: string }[] = JSON.parse(
      String(json),
    );
    const named = places.map(({ row, label, ...place }) => ({
      file: file.name,
      row: describeRow(row, label),
      ...place,
      rule: String(rule),
    }));
    refusals.addAll(String(rule), named, Number(total));
  }
}

/** Throws SourceRefusal naming rows whose record is too large; for sources that keep every other rule. */
async function refuseLarge({ instance, table, groups }: OpenSource): Promise<void> {
  const refusals = new RefusalList();
  await withConnection(instance, async (connection) => {
    for (const { fields, columns, files } of groups) {
      const bytes = `strlen(${jsonOfRow(fields)})`;
      for (const file of files) {
        const result = await connection.runAndReadAll(
          `SELECT ${rowNumber(columns)}::VARCHAR, ${table.label}, ${bytes}, (count(*) OVER ())::DOUBLE
           FROM ${readParquet([file])} WHERE ${bytes} > ${maxRecordBytes} LIMIT ${placesPerRule}`,
        );
        const rows = result.getRows();
        const places = rows.map(([row, label, size]) => {
          return { file: file.name, row: describeRow(row, label), value: `${size} bytes`, rule: recordRule };
        });
        if (places.length > 0) refusals.addAll(recordRule, places, Number(rows[0]![3]));
      }
    }
  });
  refusals.throwIfAny();
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
      `SELECT key::VARCHAR, (sum(count(*)) OVER ())::DOUBLE
       FROM (${selectFromAll(source.groups, `${key} AS key`)}) WHERE key IS NOT NULL
       GROUP BY key HAVING count(*) > 1 LIMIT ${placesPerRule}`,
    );
    const rows = result.getRows();
    const keys = rows.map(([value]) => String(value));
    if (keys.length > 0) await refuseKeys(connection, source, unique, { keys, total: Number(rows[0]![1]) });
  });
}

async function refuseKeys(
  connection: DuckDBConnection,
  { table, groups }: OpenSource,
  { key, column, rule }: UniqueKey,
  { keys, total }: { keys: readonly string[]; total: number },
): Promise<void> {
  const named: Refusal[] = [];
  for (const { files, columns } of groups) {
    for (const file of files) {
      const places = await connection.runAndReadAll(
        `SELECT ${rowNumber(columns)}::VARCHAR, ${table.label}, ${key}::VARCHAR AS key
         FROM ${readParquet([file])} WHERE list_contains(from_json($keys, '["VARCHAR"]'), ${key}::VARCHAR)
         ORDER BY key LIMIT ${placesPerRule}`,
        { keys: JSON.stringify(keys) },
      );
      for (const [row, label, value] of places.getRows()) {
        named.push({ file: file.name, row: describeRow(row, label), column, value: String(value), rule });
      }
    }
  }
  // A file that changes between the two looks may leave none.
  if (named.length === 0) return;
  throw new SourceRefusal(named.slice(0, placesPerRule), new Map([[rule, total]]));
}
