import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { faultsOfRow, jsonOfRow, maxRecordBytes, recordRule, soundRow } from "../contract/file-column.ts";
import type { SourceTable } from "../contract/source-tables.ts";
import type { FileGroup } from "../files/file-groups.ts";
import {
  listSourceFiles,
  refuseDifferences,
  type SourceFile,
  type SourceFolder,
} from "../files/source-files.ts";
import { describeRow, placesPerRule, type Refusal, RefusalList, SourceRefusal } from "../sources.ts";
import { readingFault, readParquet, scalar, selectFromAll, withConnection } from "./duckdb.ts";
import { identifier, valuesAt } from "./sql-literals.ts";

/** By the beginning of a rule: SQL that is true for a value that gives a column another type than the contract's. */
const culprits: readonly [rule: string, isCulprit: string][] = [
  // A cast to an integer would round.
  ["must be of type INTEGER", "coalesce(TRY_CAST(value AS DOUBLE) <> TRY_CAST(value AS HUGEINT), true)"],
  ["must be of type DOUBLE", "TRY_CAST(value AS DOUBLE) IS NULL"],
  ["must be of type BOOLEAN", "TRY_CAST(value AS BOOLEAN) IS NULL"],
  ["must be of type TIMESTAMP WITH TIME ZONE", "TRY_CAST(value AS TIMESTAMPTZ) IS NULL"],
];

/**
 * The first row and value because of which a column of a script's table does not have the contract's type: one word in
 * a column of numbers makes text of all of them. Undefined where every value would do, or the column cannot be read.
 */
export async function culpritOf(
  connection: DuckDBConnection,
  table: string,
  label: string,
  { column = "", rule }: Pick<Refusal, "column" | "rule">,
): Promise<Pick<Refusal, "row" | "value"> | undefined> {
  const [, isCulprit] = culprits.find(([begin]) => rule.startsWith(begin)) ?? [];
  if (!isCulprit) return undefined;
  const result = await connection
    .runAndReadAll(
      `SELECT row, label, value FROM (SELECT row, label, unnest(${valuesAt(column)}) AS value
         FROM (SELECT row_number() OVER () - 1 AS row, ${identifier(label)}::VARCHAR AS label, * FROM ${table}))
       WHERE value IS NOT NULL AND ${isCulprit} LIMIT 1`,
    )
    .catch(() => undefined);
  const [row, id, value] = result?.getRows()[0] ?? [];
  return row === undefined ? undefined : { row: describeRow(row, id), value: String(value).slice(0, 100) };
}

export interface ListedSource {
  folder: SourceFolder;
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

export async function refuseChangedFiles({ folder, table, files }: ListedSource): Promise<void> {
  refuseDifferences(files, (await listSourceFiles(folder, table.name)).files);
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

/**
 * Finds the files that made a query fail, by reading every column of every file separately. Throws SourceRefusal naming
 * them; returns when all can be read, so that the error has another cause.
 */
async function refuseUnreadable(connection: DuckDBConnection, groups: readonly FileGroup[]): Promise<void> {
  const refusals = new RefusalList();
  for (const { file, rows, fields } of eachFile(groups)) {
    for (const { name: column } of fields) {
      try {
        // Hashing reads every byte of every value. A count would be answered from the file's statistics.
        await connection.run(`SELECT max(hash(${identifier(column)})) FROM ${rows}`);
      } catch (error) {
        const rule = readingFault(error);
        const text = /value "(.*)" is not valid UTF8/s.exec(rule)?.[1];
        if (text === undefined) refusals.add({ file, column, rule });
        else {
          const value = JSON.stringify(text.slice(0, 100));
          refusals.add({ file, column, value, rule: "must be valid UTF-8" });
        }
      }
    }
  }
  refusals.throwIfAny();
}

/** The rows of one file. `rows` is SQL for them, and `row` SQL for their numbers. Messages name `file`. */
interface NumberedRows extends Pick<FileGroup, "fields" | "rowRules"> {
  file: string;
  rows: string;
  row: string;
}

function eachFile(groups: readonly FileGroup[]): NumberedRows[] {
  return groups.flatMap((group) =>
    group.files.map((file) => {
      const rows = readParquet({ ...group, files: [file] });
      // From 0. A column of this name hides DuckDB's own.
      const row = group.columns.has("file_row_number") ? "NULL" : "file_row_number";
      return { ...group, file: file.name, rows, row };
    }),
  );
}

/** Counts only the files to read. */
export async function countRows(source: OpenSource): Promise<number> {
  if (source.groups.length === 0) return 0;
  const counts = selectFromAll(source.groups, "count(*) AS n");
  return readSource(source, (connection) => scalar(connection, `SELECT sum(n) FROM (${counts})`));
}

/** Call it when a query has found a row that breaks a rule. */
export async function refuseRows(source: OpenSource): Promise<never> {
  await refuseBrokenRows(source);
  // Reached only when a file changed between the two queries.
  await refuseChangedFiles(source);
  throw new Error(`${source.table.name}: a row broke a rule, but a second look found none`);
}

/** Looks at every row, and throws SourceRefusal naming those that break a rule and what is wrong with them. */
export async function refuseBrokenRows({ instance, table, groups }: OpenSource): Promise<void> {
  const refusals = new RefusalList();
  await withConnection(instance, async (connection) => {
    for (const single of eachFile(groups)) await diagnose(connection, table, single, refusals);
    refusals.throwIfAny();
    // Only a record that keeps every other rule can be rendered, and so be measured.
    for (const single of eachFile(groups)) {
      const bytes = `strlen(${jsonOfRow(single.fields)})`;
      const short = {
        rule: recordRule,
        holds: `${bytes} <= ${maxRecordBytes}`,
        value: `concat(${bytes}, ' bytes')`,
      };
      await diagnose(connection, table, { ...single, fields: [], rowRules: [short] }, refusals);
    }
  });
  refusals.throwIfAny();
}

/** Adds the rows that break a rule and what is wrong with them. */
export async function diagnose(
  connection: DuckDBConnection,
  { label }: SourceTable,
  { fields, rowRules, file, rows, row }: NumberedRows,
  refusals: RefusalList,
): Promise<void> {
  const result = await connection.runAndReadAll(
    `WITH broken AS (SELECT ${row}::BIGINT AS row, ${label} AS label, ${faultsOfRow(fields, rowRules)} AS faults
       FROM ${rows} WHERE NOT ${soundRow(fields, rowRules)}),
     single AS (SELECT row, label, unnest(faults) AS fault, generate_subscripts(faults, 1) AS place FROM broken),
     named AS (SELECT fault.rule AS rule, count(*) AS total, min(place) AS place,
         arg_min({'row': row, 'label': left(label, 100), 'column': fault.column, 'value': fault.value},
           coalesce(row, 0) * 1000000 + place, ${placesPerRule}) AS places
       FROM single GROUP BY ALL)
     SELECT rule, total::DOUBLE, to_json(places)::VARCHAR FROM named ORDER BY places[1].row, place, rule`,
  );
  for (const [rule, total, json] of result.getRows()) {
    const places: { row: number | null; label: string | null; column: string | null; value: string }[] =
      JSON.parse(String(json));
    const named = places.map(({ row, label, column, value }) => ({
      file,
      row: describeRow(row, label),
      ...(column !== null && { column }),
      value,
      rule: String(rule),
    }));
    refusals.addAll(String(rule), named, Number(total));
  }
}

/**
 * Throws SourceRefusal naming the rows that share a key. It names those of the first keys, so every run names the same
 * ones.
 */
export async function refuseDuplicates(source: OpenSource): Promise<void> {
  const { label, unique } = source.table;
  const { key, column, rule } = unique;
  if (source.groups.length === 0) return;
  await readSource(source, async (connection) => {
    const result = await connection.runAndReadAll(
      `SELECT key::VARCHAR, (sum(count(*)) OVER ())::DOUBLE
       FROM (${selectFromAll(source.groups, `${key} AS key`)}) WHERE key IS NOT NULL
       GROUP BY key HAVING count(*) > 1 ORDER BY key LIMIT ${placesPerRule}`,
    );
    const rows = result.getRows();
    if (rows.length === 0) return;
    const keys = JSON.stringify(rows.map(([value]) => String(value)));
    const named: Refusal[] = [];
    for (const { file, rows, row } of eachFile(source.groups)) {
      const places = await connection.runAndReadAll(
        `SELECT ${row}::VARCHAR, ${label}, ${key}::VARCHAR AS key
         FROM ${rows} WHERE list_contains(from_json($keys, '["VARCHAR"]'), ${key}::VARCHAR)
         ORDER BY key, ${row} LIMIT ${placesPerRule}`,
        { keys },
      );
      for (const [row, label, value] of places.getRows())
        named.push({ file, row: describeRow(row, label), column, value: String(value), rule });
    }
    // None are found when a file has changed between the two queries.
    if (named.length > 0)
      throw new SourceRefusal(named.slice(0, placesPerRule), new Map([[rule, Number(rows[0]![1])]]));
  });
}
