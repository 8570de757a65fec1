import type { FileField, FileShape } from "./file-column.ts";
import { identifier, quoted } from "./sql-literals.ts";

/**
 * SQL of the published JSON record of a row, one line of text. Members come in the table's order under their
 * published names; only for rows that keep every rule.
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
  // Casts go by name: they put members in order and leave out those that the contract does not name.
  return `${value}::${typeOf(shape)}`;
}

/** `2026-02-02T08:21:59.229Z`, truncated. */
export function timeText(value: string): string {
  return `strftime(make_timestamp_ms(${milliseconds(value)}), '%Y-%m-%dT%H:%M:%S.%gZ')`;
}

/** Epoch milliseconds of a time, truncated: a BIGINT. */
export function milliseconds(value: string): string {
  return `epoch_ms(${value})`;
}

function typeOf(shape: FileShape): string {
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
