import type { Bound, BoundField } from "./file-column.ts";
import { identifier, quoted } from "./sql-literals.ts";
import type { RowRule } from "./table-schema.ts";

/** SQL over one row's columns: true when the row keeps every rule, else false; never null, never an error. */
export function soundRow(fields: readonly BoundField[], rowRules: readonly RowRule[]): string {
  const columns = fields.map(({ name, bound }) => sound(bound, identifier(name), 0));
  return conjunction([...columns, ...rowRules.map(({ holds }) => holds)]);
}

function sound(bound: Bound, value: string, depth: number): string {
  const inside = soundInside(bound, value, depth);
  if (!bound.nullable) return conjunction([`${value} IS NOT NULL`, inside]);
  return inside === "true" ? "true" : `(${value} IS NULL OR ${inside})`;
}

function soundInside(bound: Bound, value: string, depth: number): string {
  switch (bound.kind) {
    case "leaf":
      return conjunction(bound.rules.map(({ holds }) => holds(value)));
    case "struct":
      return conjunction(bound.fields.map(({ name, bound }) => sound(bound, member(value, name), depth)));
    case "list":
    case "map": {
      const item = `item${depth}`;
      const inside = sound(bound.of, item, depth + 1);
      if (inside === "true") return "true";
      return `len(list_filter(${itemsOf(bound, value)}, lambda ${item}: NOT ${inside})) = 0`;
    }
  }
}

/**
 * SQL over one row's columns: the list of all that is wrong with it, as STRUCT(column, value, rule). Costly;
 * meant for rows that are known not to be sound.
 */
export function faultsOfRow(fields: readonly BoundField[], rowRules: readonly RowRule[]): string {
  const columns = fields.map(({ name, bound }) => faults(bound, identifier(name), quoted(name), 0));
  const rows = rowRules.map(
    ({ column, rule, holds, value }) =>
      `CASE WHEN ${holds} THEN [] ELSE [${fault(quoted(column), value, rule)}] END`,
  );
  return concatenation([...columns, ...rows]);
}

function faults(bound: Bound, value: string, path: string, depth: number): string {
  const inside = faultsInside(bound, value, path, depth);
  const whenNull = bound.nullable ? "[]" : `[${fault(path, "'null'", "must not be null")}]`;
  return `CASE WHEN ${value} IS NULL THEN ${whenNull} ELSE ${inside} END`;
}

function faultsInside(bound: Bound, value: string, path: string, depth: number): string {
  switch (bound.kind) {
    case "leaf": {
      const cases = bound.rules.map(
        ({ rule, holds }) => `WHEN NOT ${holds(value)} THEN [${fault(path, shown(bound, value), rule)}]`,
      );
      return cases.length === 0 ? "[]" : `CASE ${cases.join(" ")} ELSE [] END`;
    }
    case "struct":
      return concatenation(
        bound.fields.map(({ name, bound }) =>
          faults(bound, member(value, name), `concat(${path}, ${quoted(`.${name}`)})`, depth),
        ),
      );
    case "list":
    case "map": {
      const [item, index] = [`item${depth}`, `index${depth}`];
      const inside = faults(bound.of, item, `concat(${path}, '[', ${index} - 1, ']')`, depth + 1);
      return `flatten(list_transform(${itemsOf(bound, value)}, lambda ${item}, ${index}: ${inside}))`;
    }
  }
}

function itemsOf(bound: Bound, value: string): string {
  return bound.kind === "map" ? `map_values(${value})` : value;
}

function member(value: string, name: string): string {
  return `struct_extract(${value}, ${quoted(name)})`;
}

function shown(bound: Bound & { kind: "leaf" }, value: string): string {
  // Cut first: of a long text to_json makes ten times as much.
  return bound.type === "VARCHAR" ? `to_json(left(${value}, 100))` : value;
}

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
