import type { Bound, BoundField } from "./file-column.ts";
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
export function sizeRules(fields: readonly BoundField[]): RowRule[] {
  return fields.flatMap(({ name, bound }) => {
    if (bound.kind !== "list") return [];
    const bytes = leastBytes(bound, identifier(name), 0);
    const holds = `coalesce(${bytes} <= ${maxRecordBytes}, true)`;
    return [{ column: name, rule: recordRule, holds, value: `concat(${bytes}, ' bytes or more')` }];
  });
}

/** SQL over one row's columns: whether making JSON of its lists takes a bounded amount of memory; never null. */
export function boundedRow(fields: readonly BoundField[]): string {
  const lists = fields.filter(({ bound }) => bound.kind === "list");
  return soundRow(lists.map(boundingRules), sizeRules(lists));
}

/** The same field with those of its rules alone that bound it. */
function boundingRules({ bound, ...field }: BoundField): BoundField {
  const within = (bound: Bound): Bound => {
    switch (bound.kind) {
      case "leaf":
        return { ...bound, nullable: true, rules: bound.rules.filter(({ bounding }) => bounding) };
      case "struct":
        return { ...bound, nullable: true, fields: bound.fields.map(boundingRules) };
      case "list":
      case "map":
        return { ...bound, nullable: true, of: within(bound.of) };
    }
  };
  return { ...field, bound: within(bound) };
}

/** SQL of a number of bytes that the JSON of a value has at least. */
function leastBytes(bound: Bound, value: string, depth: number): string {
  switch (bound.kind) {
    case "leaf":
      return ["VARCHAR", "JSON"].includes(bound.type) ? `strlen(${value}::VARCHAR)` : "1";
    case "struct": {
      const members = bound.fields.map(({ name, bound }) =>
        leastBytes(bound, `struct_extract(${value}, ${quoted(name)})`, depth),
      );
      return `(${["1", ...members.map((member) => `coalesce(${member}, 1)`)].join(" + ")})`;
    }
    case "list":
    case "map": {
      const [item, items] = [`part${depth}`, bound.kind === "map" ? `map_values(${value})` : value];
      const sum = `list_sum(list_transform(${items}, lambda ${item}: ${leastBytes(bound.of, item, depth + 1)}))`;
      return `(1 + len(${items}) + coalesce(${sum}, 0))`;
    }
  }
}
