import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { describeRow, type Refusal, SourceRefusal } from "../contract/refusals.ts";
import type { SourceTable } from "../contract/table-schema.ts";
import type { FileGroup } from "../files/file-groups.ts";
import { refuseUnreadable } from "../files/file-hashes.ts";
import { refuseChanges, type SourceDirectory, type SourceFile } from "../files/source-files.ts";
import { withConnection } from "./duckdb.ts";
import { selectFromAll } from "./parquet.ts";
import { identifier } from "./sql-literals.ts";

/**
 * By the beginning of a rule, SQL that is true for a value of another type that keeps a column from having its type.
 */
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
  const found = await connection
    .runAndReadAll(
      `SELECT row, label, value FROM (SELECT row, label, unnest(${valuesAt(column)}) AS value
         FROM (SELECT row_number() OVER () - 1 AS row, ${identifier(label)}::VARCHAR AS label, * FROM ${table}))
       WHERE value IS NOT NULL AND ${isCulprit} LIMIT 1`,
    )
    .catch(() => undefined);
  const [row, id, value] = found?.getRows()[0] ?? [];
  return row === undefined ? undefined : { row: describeRow(row, id), value: String(value).slice(0, 100) };
}

/** SQL for a list of all values at a path of the contract, such as `dimensions[].score`. */
function valuesAt(path: string): string {
  const [first = "", ...inner] = path.split("[]");
  const members = (names: string) => names.split(".").map(identifier).join(".");
  return inner.reduce(
    (list, names) =>
      `list_transform(flatten(${list}), lambda one: one${names && `.${members(names.slice(1))}`})`,
    `[${members(first)}]`,
  );
}

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
