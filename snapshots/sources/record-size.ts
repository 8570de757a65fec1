import type { FileField, FileShape } from "./file-column.ts";
import { soundRow } from "./row-checks.ts";
import { identifier, quoted } from "./sql-literals.ts";
import type { RowRule, Rule } from "./table-schema.ts";

/** The most bytes that a record may have as JSON. */
export const maxRecordBytes = 256 * 1024;
/** The most levels of lists, structs and objects within a part whose type the file chooses. */
export const maxDepth = 32;
/** The most lists and maps of a type within one another: each doubles what DuckDB takes to understand a query. */
export const maxLists = 12;

/** The rule that a record too large breaks. */
export const recordRule = `must be at most ${maxRecordBytes} bytes of JSON in all`;

/** The text of JSON without what stands in its strings. */
export function bareJson(value: string): string {
  return `regexp_replace(${value}::VARCHAR, '"(?:[^"\\\\]|\\\\.)*"', '""', 'g')`;
}

/** JSON in which nothing lies deeper than `levels`. */
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

/** Row rules that keep columns with lists within what a record may have, told without rendering any. */
export function sizeRules(fields: readonly FileField[]): RowRule[] {
  return fields.flatMap(({ name, shape }) => {
    if (shape.kind !== "list") return [];
    const bytes = leastBytes(shape, identifier(name), 0);
    const holds = `coalesce(${bytes} <= ${maxRecordBytes}, true)`;
    return [{ column: name, rule: recordRule, holds, value: `concat(${bytes}, ' bytes or more')` }];
  });
}

/** SQL over one row's columns: whether making JSON of its lists takes a bounded amount of memory; never null. */
export function boundedRow(fields: readonly FileField[]): string {
  const lists = fields.filter(({ shape }) => shape.kind === "list");
  return soundRow(lists.map(boundingRules), sizeRules(lists));
}

/** The same field with only those rules that limit its size. */
function boundingRules({ shape, ...field }: FileField): FileField {
  const within = (shape: FileShape): FileShape => {
    switch (shape.kind) {
      case "leaf":
        return { ...shape, nullable: true, rules: shape.rules.filter(({ bounding }) => bounding) };
      case "struct":
        return { ...shape, nullable: true, fields: shape.fields.map(boundingRules) };
      case "list":
      case "map":
        return { ...shape, nullable: true, of: within(shape.of) };
    }
  };
  return { ...field, shape: within(shape) };
}

/** SQL of a number of bytes that the JSON of a value has at least. */
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
