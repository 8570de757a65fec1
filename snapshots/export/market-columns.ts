import { member } from "../sources/contract/file-column.ts";
import { marketsTable } from "../sources/contract/source-tables.ts";
import type { Field, Shape } from "../sources/contract/table-schema.ts";
import { identifier, quoted } from "../sources/duckdb/sql-literals.ts";

/** The columns of a source of markets. The latest time that they allow does not matter here. */
const { fields } = marketsTable(new Date(0));

/** SQL for the typed columns of a market, given its JSON text as `text`. */
export function exportColumns(text: string): { from: string; columns: string } {
  const columns = fields.map(({ name, published = name, shape }) => {
    const value = member("market", published);
    return `${shape.kind === "time" ? `${value}::TIMESTAMPTZ` : value} AS ${identifier(name)}`;
  });
  const from = `from_json_strict(${text}, ${quoted(JSON.stringify(structureOf(fields)))}) AS market`;
  return { from, columns: columns.join(", ") };
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

const maxInteger = 2 ** 31 - 1;
// A time stays text until it is cast: a struct of JSON has none.
const types = { text: "VARCHAR", double: "DOUBLE", boolean: "BOOLEAN", time: "VARCHAR", any: "JSON" };
