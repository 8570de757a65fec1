import { quoted } from "../duckdb/sql-literals.ts";
import type { Rule } from "./table-schema.ts";

/**
 * The shape of a column, or of a part of one, in a particular file: the rules for its values and, where the contract
 * leaves the type open, the type that the file has. row-checks.ts and render-json.ts turn it into SQL.
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
