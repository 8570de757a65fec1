import {
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { between, double, type Field, type Rule, type Shape } from "./shape.ts";

/**
 * A shape as one file has it: rules for values and, for the parts whose type the file chooses, the type to publish.
 * The SQL of checks.ts and render.ts is made from it.
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

/** A column, or part of one, that is not as the contract has it. */
interface SchemaFault {
  column: string;
  value?: string;
  rule: string;
}

/** What came of comparing a file's columns with a table's. */
export interface Binding {
  fields: readonly BoundField[];
  faults: readonly SchemaFault[];
  /** Columns and members that the contract does not name. */
  extra: readonly string[];
}

const wholeTypes = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.HUGEINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.UHUGEINT,
]);

/** Compares the columns of a file with those of a table. */
export function bindColumns(fields: readonly Field[], columns: ReadonlyMap<string, DuckDBType>): Binding {
  const found: Findings = { faults: [], extra: [] };
  return { fields: bindFields(fields, columns, "", found), ...found };
}

interface Findings {
  faults: SchemaFault[];
  extra: string[];
}

function bindFields(
  fields: readonly Field[],
  types: ReadonlyMap<string, DuckDBType>,
  prefix: string,
  found: Findings,
): BoundField[] {
  const known = new Set(fields.map(({ name }) => name));
  for (const name of types.keys()) if (!known.has(name)) found.extra.push(prefix + name);
  return fields.flatMap(({ name, published = name, shape }) => {
    const type = types.get(name);
    if (!type) {
      found.faults.push({ column: prefix + name, rule: "is missing" });
      return [];
    }
    const bound = bind(shape, type, prefix + name, found);
    return bound ? [{ name, published, bound }] : [];
  });
}

function bind(shape: Shape, type: DuckDBType, path: string, found: Findings): Bound | undefined {
  const refuse = (expected: string) => {
    found.faults.push({
      column: path,
      value: shorten(type.alias ?? type.toString()),
      rule: `must be of type ${expected}`,
    });
    return undefined;
  };
  switch (shape.kind) {
    case "any":
      return bindAny(type) ?? refuse("text, boolean, integer, double, or lists, structs and maps of these");
    case "list": {
      if (type.typeId !== DuckDBTypeId.LIST) return refuse("LIST");
      const of = bind(shape.of, (type as DuckDBListType).valueType, `${path}[]`, found);
      return of && { nullable: false, kind: "list", of };
    }
    case "struct": {
      if (type.typeId !== DuckDBTypeId.STRUCT) return refuse("STRUCT");
      const fields = bindFields(shape.fields, membersOf(type as DuckDBStructType), `${path}.`, found);
      return { nullable: false, kind: "struct", fields };
    }
    case "integer": {
      if (!wholeTypes.has(type.typeId)) return refuse("INTEGER, or another integer type");
      const rule = `must be from ${shape.min} to ${shape.max}`;
      return leaf("BIGINT", [{ rule, holds: between(shape.min, shape.max) }]);
    }
    case "text":
      return isText(type) ? leaf("VARCHAR", shape.rules) : refuse("VARCHAR");
    case "double":
      return type.typeId === DuckDBTypeId.DOUBLE ? leaf("DOUBLE", shape.rules) : refuse("DOUBLE");
    case "boolean":
      return type.typeId === DuckDBTypeId.BOOLEAN ? leaf("BOOLEAN", []) : refuse("BOOLEAN");
    case "time":
      if (type.typeId !== DuckDBTypeId.TIMESTAMP_TZ) return refuse("TIMESTAMP WITH TIME ZONE");
      return { ...leaf("TIMESTAMPTZ", shape.rules), time: true };
  }
}

function leaf(type: string, rules: readonly Rule[], nullable = false) {
  return { nullable, kind: "leaf", type, rules, time: false } as const;
}

function membersOf(type: DuckDBStructType): Map<string, DuckDBType> {
  return new Map(type.entryNames.map((name, index) => [name, type.entryTypes[index]!]));
}

function isText(type: DuckDBType): boolean {
  return type.typeId === DuckDBTypeId.VARCHAR && type.alias === undefined;
}

/** Types that JSON holds exactly; undefined for all others, such as BLOB, DECIMAL and times. */
function bindAny(type: DuckDBType): Bound | undefined {
  if (type.alias === "JSON") return leaf("JSON", [exactJson], true);
  if (wholeTypes.has(type.typeId)) return leaf("BIGINT", [exactInteger], true);
  switch (type.typeId) {
    case DuckDBTypeId.VARCHAR:
      return type.alias === undefined ? leaf("VARCHAR", [], true) : undefined;
    case DuckDBTypeId.BOOLEAN:
      return leaf("BOOLEAN", [], true);
    case DuckDBTypeId.DOUBLE:
    case DuckDBTypeId.FLOAT:
      // Every FLOAT is a DOUBLE too, and prints as that.
      return leaf("DOUBLE", double.kind === "double" ? double.rules : [], true);
    case DuckDBTypeId.LIST: {
      const of = bindAny((type as DuckDBListType).valueType);
      return of && { nullable: true, kind: "list", of };
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType;
      const of = bindAny(valueType);
      return of && isText(keyType) ? { nullable: true, kind: "map", of } : undefined;
    }
    case DuckDBTypeId.STRUCT: {
      const members = [...membersOf(type as DuckDBStructType)].map(([name, member]) => {
        const bound = bindAny(member);
        return bound && { name, published: name, bound };
      });
      const fields = members.filter((member) => member !== undefined);
      return fields.length === members.length ? { nullable: true, kind: "struct", fields } : undefined;
    }
    default:
      return undefined;
  }
}

const exactInteger: Rule = {
  rule: "must be an integer that JSON holds exactly, up to 2^53-1",
  holds: between(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
};

/**
 * DuckDB's JSON parser takes NaN and Infinity, and passes numbers of any size on. Strings are cut out first, so that
 * letters and digits within them do not count.
 */
const exactJson: Rule = {
  rule: "must be JSON without NaN, Infinity, and numbers that JavaScript cannot hold",
  holds: (value) => {
    const bare = `regexp_replace(${value}::VARCHAR, '"(?:[^"\\\\]|\\\\.)*"', '""', 'g')`;
    const numbers = `regexp_extract_all(${bare}, '-?[0-9][0-9.eE+-]*')`;
    const exact = `lambda digits: CASE WHEN regexp_matches(digits, '[.eE]')
      THEN coalesce(isfinite(TRY_CAST(digits AS DOUBLE)), false)
      ELSE coalesce(TRY_CAST(digits AS HUGEINT) BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}, false) END`;
    return `(json_valid(${value}::VARCHAR) AND NOT regexp_matches(${bare}, '(?i)nan|inf')
      AND len(list_filter(${numbers}, lambda digits: NOT (${exact.slice("lambda digits: ".length)}))) = 0)`;
  },
};

function shorten(text: string): string {
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
