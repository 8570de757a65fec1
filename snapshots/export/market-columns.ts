import { marketDimensionKeys } from "../../schemas/market.ts";
import { member } from "../sources/contract/file-column.ts";
import { marketsTable } from "../sources/contract/source-tables.ts";
import { type Field, integer, type Shape, text } from "../sources/contract/table-schema.ts";
import { identifier, quoted } from "../sources/duckdb/sql-literals.ts";

/** The columns of a source of markets. The latest time that they allow does not matter here. */
const { fields } = marketsTable(new Date(0));

/** The largest value of an INT column; others are BIGINT. */
export const maxInteger = 2 ** 31 - 1;

/** The columns of the files of an export, in their order. */
export const exportedColumns: readonly { name: string; shape: Shape }[] = [
  ...fields,
  // Readers filter by plain columns; few of them look into lists.
  ...marketDimensionKeys.map((name) => ({ name, shape: integer({ min: 0, max: maxInteger }) })),
  { name: "json", shape: text() },
];

/** SQL for these columns but the last, given a market's JSON text as `line`. */
export function exportColumns(line: string): { from: string; columns: string } {
  const columns = fields.map(({ name, published = name, shape }) => {
    const value = member("market", published);
    return `${shape.kind === "time" ? `${value}::TIMESTAMPTZ` : value} AS ${identifier(name)}`;
  });
  const scores = marketDimensionKeys.map(
    (key) =>
      `list_filter(${member("market", "dimensions")}, lambda dimension: dimension.key = ${quoted(key)})[1].score ` +
      `AS ${identifier(key)}`,
  );
  const from = `from_json_strict(${line}, ${quoted(JSON.stringify(structureOf(fields)))}) AS market`;
  return { from, columns: [...columns, ...scores].join(", ") };
}

/** What `from_json_strict` takes for a struct: the types of its members in the published JSON. */
function structureOf(members: readonly Field[]): Record<string, unknown> {
  return Object.fromEntries(
    members.map(({ name, published = name, shape }) => [published, structure(shape)]),
  );
}

function structure(shape: Shape): unknown {
  switch (shape.kind) {
    case "list":
      return [structure(shape.of)];
    case "struct":
      return structureOf(shape.fields);
    case "integer":
      return shape.max > maxInteger ? "BIGINT" : "INTEGER";
    default:
      return types[shape.kind];
  }
}

// A time stays text until it is cast: a struct of JSON has none.
const types = { text: "VARCHAR", double: "DOUBLE", boolean: "BOOLEAN", time: "VARCHAR", any: "JSON" };
