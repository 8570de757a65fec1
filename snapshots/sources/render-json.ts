import type { Bound, BoundField } from "./file-column.ts";
import { identifier, quoted } from "./sql-literals.ts";

/**
 * SQL of the published JSON record of a row, one line of text. Members come in the table's order under their
 * published names; only for rows that keep every rule.
 */
export function jsonOfRow(fields: readonly BoundField[]): string {
  return `to_json(${published(fields, identifier)})::VARCHAR`;
}

function published(fields: readonly BoundField[], sourceOf: (name: string) => string): string {
  const members = fields.map(
    ({ name, published, bound }) => `${quoted(published)}: ${publishedValue(bound, sourceOf(name))}`,
  );
  return `{${members.join(", ")}}`;
}

function publishedValue(bound: Bound, value: string): string {
  if (bound.kind === "leaf" && bound.time) return timeText(value);
  if (bound.kind === "struct" && !bound.nullable) {
    return published(bound.fields, (name) => `struct_extract(${value}, ${quoted(name)})`);
  }
  // Casts go by name: they put members in order and leave out those that the contract does not name.
  return `${value}::${typeOf(bound)}`;
}

/** `2026-02-02T08:21:59.229Z`, truncated. */
export function timeText(value: string): string {
  return `strftime(make_timestamp_ms(${milliseconds(value)}), '%Y-%m-%dT%H:%M:%S.%gZ')`;
}

/** Epoch milliseconds of a time, truncated: a BIGINT. */
export function milliseconds(value: string): string {
  return `epoch_ms(${value})`;
}

function typeOf(bound: Bound): string {
  switch (bound.kind) {
    case "leaf":
      return bound.type;
    case "list":
      return `${typeOf(bound.of)}[]`;
    case "map":
      return `MAP(VARCHAR, ${typeOf(bound.of)})`;
    case "struct":
      return `STRUCT(${bound.fields.map(memberType).join(", ")})`;
  }
}

function memberType({ name, bound }: BoundField): string {
  return `${identifier(name)} ${typeOf(bound)}`;
}
