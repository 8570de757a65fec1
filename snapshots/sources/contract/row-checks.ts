import { identifier, quoted } from "../duckdb/sql-literals.ts";
import { type FileField, type FileShape, itemsOf, member } from "./file-column.ts";
import type { RowRule, Rule } from "./table-schema.ts";

/**
 * SQL over a row's columns that is true when the row keeps every rule, and false otherwise. It is never null and never
 * fails.
 */
export function soundRow(fields: readonly FileField[], rowRules: readonly RowRule[]): string {
  const columns = fields.map(({ name, shape }) => sound(shape, identifier(name), 0));
  return conjunction([...columns, ...rowRules.map(({ holds }) => holds)]);
}

function sound(shape: FileShape, value: string, depth: number): string {
  const inside = soundInside(shape, value, depth);
  if (!shape.nullable) return conjunction([`${value} IS NOT NULL`, inside]);
  return inside === "true" ? "true" : `(${value} IS NULL OR ${inside})`;
}

function soundInside(shape: FileShape, value: string, depth: number): string {
  switch (shape.kind) {
    case "leaf":
      return conjunction(shape.rules.map(({ holds }) => holds(value)));
    case "struct":
      return conjunction(shape.fields.map(({ name, shape }) => sound(shape, member(value, name), depth)));
    case "list":
      return soundItems(shape.of, value, depth);
    case "map":
      return conjunction([
        ...shape.rules.map(({ holds }) => holds(value)),
        soundItems(shape.keys, `map_keys(${value})`, depth),
        soundItems(shape.of, itemsOf(shape, value), depth),
      ]);
  }
}

function soundItems(shape: FileShape, items: string, depth: number): string {
  const item = `item${depth}`;
  const inside = sound(shape, item, depth + 1);
  return inside === "true" ? "true" : `len(list_filter(${items}, lambda ${item}: NOT ${inside})) = 0`;
}

/**
 * SQL over a row's columns for the list of its faults, as STRUCT(column, value, rule). It is costly, and meant for rows
 * that are known to break a rule.
 */
export function faultsOfRow(fields: readonly FileField[], rowRules: readonly RowRule[]): string {
  const columns = fields.map(({ name, shape }) => faults(shape, identifier(name), quoted(name), 0));
  const rows = rowRules.map(
    ({ column, rule, holds, value }) =>
      `CASE WHEN ${holds} THEN [] ELSE [${fault(quoted(column), value, rule)}] END`,
  );
  return concatenation([...columns, ...rows]);
}

function faults(shape: FileShape, value: string, path: string, depth: number): string {
  const inside = faultsInside(shape, value, path, depth);
  const whenNull = shape.nullable ? "[]" : `[${fault(path, "'null'", "must not be null")}]`;
  return `CASE WHEN ${value} IS NULL THEN ${whenNull} ELSE ${inside} END`;
}

function faultsInside(shape: FileShape, value: string, path: string, depth: number): string {
  switch (shape.kind) {
    case "leaf":
      return brokenRule(shape, value, path);
    case "struct":
      return concatenation(
        shape.fields.map(({ name, shape }) =>
          faults(shape, member(value, name), `concat(${path}, ${quoted(`.${name}`)})`, depth),
        ),
      );
    case "list":
      return faultsOfItems(shape.of, value, path, depth);
    case "map":
      return concatenation([
        brokenRule(shape, value, path),
        faultsOfItems(shape.keys, `map_keys(${value})`, `concat(${path}, '.keys')`, depth),
        faultsOfItems(shape.of, itemsOf(shape, value), path, depth),
      ]);
  }
}

/** SQL for a list with the first rule that a value breaks, or an empty one. */
function brokenRule(shape: FileShape & { rules: readonly Rule[] }, value: string, path: string): string {
  const cases = shape.rules.map(({ rule, holds, shown = shownOf(shape) }) => {
    return `WHEN NOT ${holds(value)} THEN [${fault(path, shown(value), rule)}]`;
  });
  return cases.length === 0 ? "[]" : `CASE ${cases.join(" ")} ELSE [] END`;
}

function faultsOfItems(shape: FileShape, items: string, path: string, depth: number): string {
  const [item, index] = [`item${depth}`, `index${depth}`];
  const inside = faults(shape, item, `concat(${path}, '[', ${index} - 1, ']')`, depth + 1);
  return `flatten(list_transform(${items}, lambda ${item}, ${index}: ${inside}))`;
}

/** What refusals show of a value. A text is truncated first, because to_json makes ten times its size of a long one. */
const shownOf = (shape: FileShape) => (value: string) =>
  shape.kind === "leaf" && shape.type === "VARCHAR" ? `to_json(left(${value}, 100))` : value;

function fault(path: string, value: string, rule: string): string {
  return `{'column': ${path}, 'value': left(${value}::VARCHAR, 100), 'rule': ${quoted(rule)}}`;
}

function conjunction(parts: readonly string[]): string {
  const needed = parts.filter((part) => part !== "true");
  return needed.length === 0 ? "true" : `(${needed.join(" AND ")})`;
}

function concatenation(lists: readonly string[]): string {
  return lists.length === 0 ? "[]" : `flatten([${lists.join(", ")}])`;
}
