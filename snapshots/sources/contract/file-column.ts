import { identifier, quoted } from "../duckdb/sql-literals.ts";
import type { Rule } from "./table-schema.ts";

/**
 * The shape of a column, or of a part of one, in a particular file: the rules for its values and, where the contract
 * leaves the type open, the type that the file has. jsonOfRow and row-checks.ts turn it into SQL.
 */
export type FileShape = { nullable: boolean } & (
  | { kind: "leaf"; type: string; rules: readonly Rule[]; time: boolean }
  | { kind: "list"; of: FileShape }
  | { kind: "struct"; fields: readonly FileField[] }
  | { kind: "map"; rules: readonly Rule[]; keys: FileShape; of: FileShape }
);

/** A column of a file, or a member of a struct in it. */
export interface FileField {
  /** The name in the file. */
  name: string;
  /** The name in the published JSON. */
  published: string;
  shape: FileShape;
}

/** A value without parts. It is cast to `type` before it is published. */
export function leaf(type: string, rules: readonly Rule[], nullable = false) {
  return { nullable, kind: "leaf", type, rules, time: false } as const;
}

/** Changes every shape of a field, parts before what they are part of. */
export function changeShapes(
  { shape, ...field }: FileField,
  change: (shape: FileShape) => FileShape,
): FileField {
  const within = (shape: FileShape): FileShape => {
    switch (shape.kind) {
      case "leaf":
        return change(shape);
      case "struct":
        return change({ ...shape, fields: shape.fields.map((member) => changeShapes(member, change)) });
      case "list":
        return change({ ...shape, of: within(shape.of) });
      case "map":
        return change({ ...shape, keys: within(shape.keys), of: within(shape.of) });
    }
  };
  return { ...field, shape: within(shape) };
}

export function member(value: string, name: string): string {
  return `struct_extract(${value}, ${quoted(name)})`;
}

/** SQL for a list: the items of a list, or the values of a map. */
export function itemsOf(shape: FileShape, value: string): string {
  return shape.kind === "map" ? `map_values(${value})` : value;
}

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
