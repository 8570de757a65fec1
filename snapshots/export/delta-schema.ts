import type { Shape } from "../sources/contract/table-schema.ts";
import { exportedColumns, maxInteger } from "./market-columns.ts";

interface DeltaField {
  name: string;
  type: DeltaType;
  nullable: true;
  metadata: Record<string, never>;
}

type DeltaType =
  | string
  | { type: "struct"; fields: DeltaField[] }
  | { type: "array"; elementType: DeltaType; containsNull: true };

const structOf = (members: readonly { name: string; shape: Shape }[]) => ({
  type: "struct" as const,
  fields: members.map(
    ({ name, shape }): DeltaField => ({ name, type: typeOf(shape), nullable: true, metadata: {} }),
  ),
});

function typeOf(shape: Shape): DeltaType {
  switch (shape.kind) {
    case "list":
      return { type: "array", elementType: typeOf(shape.of), containsNull: true };
    case "struct":
      return structOf(shape.fields);
    case "integer":
      return shape.max > maxInteger ? "long" : "integer";
    default:
      return types[shape.kind];
  }
}

const types = { text: "string", double: "double", boolean: "boolean", time: "timestamp", any: "string" };

/** The schema of an export's files in the JSON of Delta tables. */
export const deltaSchema = JSON.stringify(structOf(exportedColumns));
