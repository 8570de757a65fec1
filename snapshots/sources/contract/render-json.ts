import { identifier, quoted } from "../duckdb/sql-literals.ts";
import { type FileField, type FileShape, member } from "./file-column.ts";

/**
 * SQL for a row's published record as one line of JSON text. Members have their published names and the table's order.
 * Valid only for rows that keep every rule.
 */
export function jsonOfRow(fields: readonly FileField[]): string {
  return `to_json(${published(fields, identifier)})::VARCHAR`;
}

function published(fields: readonly FileField[], sourceOf: (name: string) => string): string {
  const members = fields.map(
    ({ name, published, shape }) => `${quoted(published)}: ${publishedValue(shape, sourceOf(name))}`,
  );
  return `{${members.join(", ")}}`;
}

function publishedValue(shape: FileShape, value: string): string {
  if (shape.kind === "leaf" && shape.time) return timeText(value);
  if (shape.kind === "struct" && !shape.nullable) {
    return published(shape.fields, (name) => member(value, name));
  }
  // Casts match members by name: they put them in order, and drop those that the contract does not name.
  return `${value}::${typeOf(shape)}`;
}

/** SQL for a time as text, truncated to milliseconds, such as `2026-02-02T08:21:59.229Z`. */
export function timeText(value: string): string {
  return `strftime(make_timestamp_ms(${milliseconds(value)}), '%Y-%m-%dT%H:%M:%S.%gZ')`;
}

/** SQL for epoch milliseconds, truncated, as a BIGINT. */
export function milliseconds(value: string): string {
  return `epoch_ms(${value})`;
}

/** SQL for the type of a value as it is published. */
export function typeOf(shape: FileShape): string {
  switch (shape.kind) {
    case "leaf":
      return shape.type;
    case "list":
      return `${typeOf(shape.of)}[]`;
    case "map":
      return `MAP(VARCHAR, ${typeOf(shape.of)})`;
    case "struct":
      return `STRUCT(${shape.fields.map(memberType).join(", ")})`;
  }
}

function memberType({ name, shape }: FileField): string {
  return `${identifier(name)} ${typeOf(shape)}`;
}
