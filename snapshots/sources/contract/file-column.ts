import { maxMarketBytes } from "../../store/layout.ts";
import { identifier, quoted } from "../duckdb/sql-literals.ts";
import { milliseconds, type RowRule, type Rule } from "./source-tables.ts";

/**
 * The shape of a column, or of a part of one, in a particular file: the rules for its values and, where the contract
 * leaves the type open, the type that the file has. The functions below turn it into SQL.
 */
export type FileShape = { nullable: boolean } & (
  | { kind: "leaf"; type: string; rules: readonly Rule[] }
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
  return { nullable, kind: "leaf", type, rules } as const;
}

export function member(value: string, name: string): string {
  return `struct_extract(${value}, ${quoted(name)})`;
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
  if (shape.kind === "leaf" && shape.type === "TIMESTAMPTZ") return timeText(value);
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
      return `STRUCT(${shape.fields.map(({ name, shape }) => `${identifier(name)} ${typeOf(shape)}`).join(", ")})`;
  }
}

/**
 * SQL over a row's columns that is true when the row keeps every rule, and false otherwise. It is never null and never
 * fails. `counts` tells which rules of single values are looked at.
 */
export function soundRow(
  fields: readonly FileField[],
  rowRules: readonly RowRule[],
  counts: (rule: Rule) => boolean = () => true,
): string {
  return conjunction([...checksOf(fields, soundness(counts)), ...rowRules.map(({ holds }) => holds)]);
}

/**
 * SQL over a row's columns for the list of its faults, as STRUCT(column, value, rule). It is costly, and meant for rows
 * that are known to break a rule.
 */
export function faultsOfRow(fields: readonly FileField[], rowRules: readonly RowRule[]): string {
  const rows = rowRules.map(
    ({ column, rule, holds, value }) =>
      `CASE WHEN ${holds} THEN [] ELSE [${fault(column === undefined ? "NULL" : quoted(column), value, rule)}] END`,
  );
  return concatenation([...checksOf(fields, faults), ...rows]);
}

/** What the checks of values and of their parts become in SQL. `path` is SQL for where a value stands. */
interface Check {
  /** The check of a value that may be null, where `inside` is that of one that is not. */
  value(shape: FileShape, value: string, path: string, inside: string): string;
  rules(shape: FileShape & { rules: readonly Rule[] }, value: string, path: string): string;
  /** The checks of all parts of a value together. */
  all(parts: readonly string[]): string;
  /** The check of a list, where `inside` is that of its item. */
  items(items: string, item: string, index: string, inside: string): string;
}

function checksOf(fields: readonly FileField[], check: Check): string[] {
  return fields.map(({ name, shape }) => checked(check, shape, identifier(name), quoted(name), 0));
}

function checked(check: Check, shape: FileShape, value: string, path: string, depth: number): string {
  return check.value(shape, value, path, checkedInside(check, shape, value, path, depth));
}

function checkedInside(check: Check, shape: FileShape, value: string, path: string, depth: number): string {
  const items = (of: FileShape, list: string, path: string) => {
    const [item, index] = [`item${depth}`, `index${depth}`];
    const inside = checked(check, of, item, `concat(${path}, '[', ${index} - 1, ']')`, depth + 1);
    return check.items(list, item, index, inside);
  };
  switch (shape.kind) {
    case "leaf":
      return check.rules(shape, value, path);
    case "struct":
      return check.all(
        shape.fields.map(({ name, shape }) =>
          checked(check, shape, member(value, name), `concat(${path}, ${quoted(`.${name}`)})`, depth),
        ),
      );
    case "list":
      return items(shape.of, value, path);
    case "map":
      return check.all([
        check.rules(shape, value, path),
        items(shape.keys, `map_keys(${value})`, `concat(${path}, '.keys')`),
        items(shape.of, `map_values(${value})`, path),
      ]);
  }
}

/** Holds for values that keep the rules that count. With `anyNull`, every value may be null. */
const soundness = (counts: (rule: Rule) => boolean, anyNull = false): Check => ({
  value({ nullable }, value, _path, inside) {
    if (!nullable && !anyNull) return conjunction([`${value} IS NOT NULL`, inside]);
    return inside === "true" ? "true" : `(${value} IS NULL OR ${inside})`;
  },
  rules: ({ rules }, value) => conjunction(rules.filter(counts).map(({ holds }) => holds(value))),
  all: conjunction,
  items: (items, item, _index, inside) =>
    inside === "true" ? "true" : `len(list_filter(${items}, lambda ${item}: NOT ${inside})) = 0`,
});

/** A list with the first rule that each value breaks. */
const faults: Check = {
  value({ nullable }, value, path, inside) {
    const whenNull = nullable ? "[]" : `[${fault(path, "'null'", "must not be null")}]`;
    return `CASE WHEN ${value} IS NULL THEN ${whenNull} ELSE ${inside} END`;
  },
  rules(shape, value, path) {
    const cases = shape.rules.map(({ rule, holds, shown = shownOf(shape) }) => {
      return `WHEN NOT ${holds(value)} THEN [${fault(path, shown(value), rule)}]`;
    });
    return cases.length === 0 ? "[]" : `CASE ${cases.join(" ")} ELSE [] END`;
  },
  all: concatenation,
  items: (items, item, index, inside) =>
    `flatten(list_transform(${items}, lambda ${item}, ${index}: ${inside}))`,
};

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

export function shallowJson(levels: number): Rule {
  let pattern = "";
  for (let level = 0; level < levels; level += 1) pattern = `(?:\\[${pattern}\\])*`;
  const brackets = (value: string) =>
    `regexp_replace(translate(${bareJson(value)}, '{}', '[]'), '[^\\[\\]]', '', 'g')`;
  return {
    rule: `must not be nested more than ${maxDepth} deep`,
    holds: (value) => `regexp_full_match(${brackets(value)}, ${quoted(pattern)})`,
    bounding: true,
  };
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
  const bounds = soundness(({ bounding = false }) => bounding, true);
  return conjunction([...checksOf(lists, bounds), ...sizeRules(lists).map(({ holds }) => holds)]);
}

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
      const [item, items] = [`part${depth}`, shape.kind === "map" ? `map_values(${value})` : value];
      const sum = `list_sum(list_transform(${items}, lambda ${item}: ${leastBytes(shape.of, item, depth + 1)}))`;
      return `(1 + len(${items}) + coalesce(${sum}, 0))`;
    }
  }
}
