import type { Rule } from "./table-schema.ts";

/**
 * A shape as one file has it: rules for values and, for the parts whose type the file chooses, the type to
 * publish. The SQL of checks.ts and render.ts is made from it.
 */
export type Bound = { nullable: boolean } & (
  | { kind: "leaf"; type: string; rules: readonly Rule[]; time: boolean }
  | { kind: "list"; of: Bound }
  | { kind: "struct"; fields: readonly BoundField[] }
  | { kind: "map"; of: Bound }
);

export interface BoundField {
  name: string;
  published: string;
  bound: Bound;
}

/** A value without parts; it is cast to `type` before it is published. */
export function leaf(type: string, rules: readonly Rule[], nullable = false) {
  return { nullable, kind: "leaf", type, rules, time: false } as const;
}
