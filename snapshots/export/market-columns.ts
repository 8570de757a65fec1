import { everyDimensionKey, everyMember } from "../../schemas/market.ts";
import { member } from "../sources/contract/file-column.ts";
import { fieldsOf } from "../sources/contract/source-tables.ts";
import { type Field, integer, type Shape, text } from "../sources/contract/table-schema.ts";
import { identifier, quoted } from "../sources/duckdb/sql-literals.ts";

/** The members of every version of the feed. Those that a market's version does not have are null. */
const fields = fieldsOf(everyMember, undefined);

/** The largest value of an INT column; larger ones need BIGINT. */
export const maxInteger = 2 ** 31 - 1;

/** In the order of the files. */
export const exportedColumns: readonly { name: string; shape: Shape }[] = [
  ...fields,
  // Readers filter by plain columns; few of them look into lists.
  ...everyDimensionKey.map((name) => ({ name, shape: integer({ min: 0, max: maxInteger }) })),
  { name: "json", shape: text() },
];

/** SQL for all columns but the last. `line` is SQL for a market's JSON text. */
export function exportColumns(line: string): { from: string; columns: string } {
  const columns = fields.map(({ name, published = name, shape }) => {
    const value = member("market", published);
    return `${shape.kind === "time" ? `${value}::TIMESTAMPTZ` : value} AS ${identifier(name)}`;
  });
  const scores = everyDimensionKey.map(
    (key) =>
      `list_filter(${member("market", "dimensions")}, lambda dimension: dimension.key = ${quoted(key)})[1].score ` +
      `AS ${identifier(key)}`,
  );
  const from = `from_json(${line}, ${quoted(JSON.stringify(structureOf(fields)))}) AS market`;
  return { from, columns: [...columns, ...scores].join(", ") };
}

/** The types of a struct's members for `from_json`, by their published names. */
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

// Times stay text until they are cast, since JSON has none.
const types = { text: "VARCHAR", double: "DOUBLE", boolean: "BOOLEAN", time: "VARCHAR", any: "JSON" };
