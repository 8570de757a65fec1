import type { DuckDBConnection } from "@duckdb/node-api";
import { describeRow, type Refusal } from "../contract/refusals.ts";
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
