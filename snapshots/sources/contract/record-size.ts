import { maxMarketBytes } from "../../store/layout.ts";
import { identifier, quoted } from "../duckdb/sql-literals.ts";
import { changeShapes, type FileField, type FileShape, itemsOf, member } from "./file-column.ts";
import { soundRow } from "./row-checks.ts";
import type { RowRule, Rule } from "./table-schema.ts";

/** Bytes of JSON. */
export const maxRecordBytes = maxMarketBytes;
/** The most levels of lists, structs and objects within a part whose type the file chooses. */
export const maxDepth = 32;
/**
 * The most lists and maps of a type within one another. Each level doubles the time that DuckDB takes to plan a query.
 */
export const maxLists = 12;

export const recordRule = `must be at most ${maxRecordBytes} bytes of JSON in all`;

/** SQL for a JSON text with all its strings emptied. */
export function bareJson(value: string): string {
  return `regexp_replace(${value}::VARCHAR, '"(?:[^"\\\\]|\\\\.)*"', '""', 'g')`;
}

/** Limits JSON to `levels` levels of nesting. */
export function shallowJson(levels: number): Rule {
  const rule = `must not be nested more than ${maxDepth} deep`;
  return { rule, holds: (value) => shallow(value, levels), bounding: true };
}

function shallow(value: string, levels: number): string {
  let pattern = "";
  for (let level = 0; level < levels; level += 1) pattern = `(?:\\[${pattern}\\])*`;
  const brackets = `regexp_replace(translate(${bareJson(value)}, '{}', '[]'), '[^\\[\\]]', '', 'g')`;
  return `regexp_full_match(${brackets}, ${quoted(pattern)})`;
}

/** Limits the size of columns with lists, without rendering them. */
export function sizeRules(fields: readonly FileField[]): RowRule[] {
  return fields.flatMap(({ name, shape }) => {
    if (shape.kind !== "list") return [];
    const bytes = leastBytes(shape, identifier(name), 0);
    const holds = `coalesce(${bytes} <= ${maxRecordBytes}, true)`;
    return [{ column: name, rule: recordRule, holds, value: `concat(${bytes}, ' bytes or more')` }];
  });
}

/**
 * SQL over a row's columns that is true when rendering its lists as JSON takes a limited amount of memory. It is never
 * null.
 */
export function boundedRow(fields: readonly FileField[]): string {
  const lists = fields.filter(({ shape }) => shape.kind === "list");
  return soundRow(lists.map(boundingRules), sizeRules(lists));
}

/** Keeps only those rules that limit the size of a field. */
const boundingRules = (field: FileField): FileField =>
  changeShapes(field, (shape) => {
    const rules = "rules" in shape && { rules: shape.rules.filter(({ bounding }) => bounding) };
    return { ...shape, nullable: true, ...rules };
  });

/** SQL for a lower bound of a value's size as JSON, in bytes. */
function leastBytes(shape: FileShape, value: string, depth: number): string {
  switch (shape.kind) {
    case "leaf":
      return ["VARCHAR", "JSON"].includes(shape.type) ? `strlen(${value}::VARCHAR)` : "1";
    case "struct": {
      const members = shape.fields.map(({ name, shape }) => leastBytes(shape, member(value, name), depth));
      return `(${["1", ...members.map((member) => `coalesce(${member}, 1)`)].join(" + ")})`;
    }
    case "list":
    case "map": {
      const [item, items] = [`part${depth}`, itemsOf(shape, value)];
      const sum = `list_sum(list_transform(${items}, lambda ${item}: ${leastBytes(shape.of, item, depth + 1)}))`;
      return `(1 + len(${items}) + coalesce(${sum}, 0))`;
    }
  }
}
