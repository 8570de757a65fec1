import {
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { shorten } from "../../../schemas/errors.ts";
import { type Members, type Shape, sourceName } from "../../../schemas/shapes.ts";
import { foldCase, isInteger, isText, membersOf, type NamedType } from "../duckdb/duckdb.ts";
import type { Refusal } from "../sources.ts";
import {
  bareJson,
  type FileField,
  type FileShape,
  leaf,
  maxDepth,
  maxLists,
  maxRecordBytes,
  shallowJson,
  sizeRules,
} from "./file-column.ts";
import {
  cleanJson,
  controlsRule,
  finite,
  noControls,
  type Rule,
  rulesOf,
  type SourceTable,
  textRules,
  unwanted,
  within,
} from "./source-tables.ts";

type SchemaFault = Pick<Refusal, "value" | "rule"> & { column: string };

/**
 * `empty` are paths of lists without an item in any row: these may be of any type. `extra` has the columns and struct
 * members that the contract does not name.
 */
export function matchColumns(
  { members, latest, rowRules }: Pick<SourceTable, "members" | "latest" | "rowRules">,
  columns: readonly NamedType[],
  empty: ReadonlySet<string> = new Set(),
) {
  const result: Findings = { faults: [], extra: [], latest, empty };
  const fields = matchFields(members, columns, "", result);
  const { faults, extra } = result;
  return { fields, rowRules: [...rowRules, ...sizeRules(fields)], faults, extra };
}

interface Findings extends Pick<SourceTable, "latest"> {
  faults: SchemaFault[];
  extra: string[];
  empty: ReadonlySet<string>;
}

function matchFields(
  members: Members,
  types: readonly NamedType[],
  prefix: string,
  result: Findings,
): FileField[] {
  const names = Object.keys(members).map(sourceName);
  for (const [name] of types) if (!names.includes(name)) result.extra.push(prefix + name);
  const otherwise = writtenOtherwise(names, types, prefix);
  result.faults.push(...otherwise.faults);
  return Object.entries(members).flatMap(([published, shape]) => {
    const name = sourceName(published);
    const [type, again] = types.flatMap((one) => (one[0] === name ? [one[1]] : []));
    if (!type || again) {
      if (again) result.faults.push({ column: prefix + name, rule: "must not be there twice" });
      else if (!otherwise.names.has(name)) result.faults.push({ column: prefix + name, rule: "is missing" });
      return [];
    }
    const matched = matchShape(shape, type, prefix + name, result);
    return matched ? [{ name, published, shape: matched }] : [];
  });
}

/** Names that occur with other case or separators, and one fault for all of them. */
function writtenOtherwise(
  wanted: readonly string[],
  types: readonly NamedType[],
  prefix: string,
): { names: ReadonlySet<string>; faults: SchemaFault[] } {
  const there = new Set(types.map(([name]) => name));
  const lookAlikes = new Map(types.map(([name]) => [letters(name), name]));
  const pairs = wanted.flatMap((name): [string, string][] => {
    const other = there.has(name) ? undefined : lookAlikes.get(letters(name));
    return other === undefined ? [] : [[name, other]];
  });
  const [names, others] = [pairs.map(([name]) => name), pairs.map(([, other]) => prefix + other)];
  const rule = `must be written ${names.join(", ")}: names are in lower case, with underscores between words`;
  return { names: new Set(names), faults: pairs.length > 0 ? [{ column: others.join(", "), rule }] : [] };
}

const letters = (name: string) => name.replaceAll(/[_\s-]/g, "").toLowerCase();

/** How pandas and Spark write times by default, Spark also as INT96. */
const zoneless = new Set([
  DuckDBTypeId.TIMESTAMP,
  DuckDBTypeId.TIMESTAMP_S,
  DuckDBTypeId.TIMESTAMP_MS,
  DuckDBTypeId.TIMESTAMP_NS,
]);
const zoneHelp =
  "of times in UTC, pyarrow makes it with pa.timestamp('us', tz='UTC'), Spark of its TIMESTAMP with " +
  "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS, and a script with ::TIMESTAMPTZ";

function matchShape(shape: Shape, type: DuckDBType, path: string, result: Findings): FileShape | undefined {
  const fault = (rule: string) => {
    result.faults.push({ column: path, value: shorten(type.alias ?? type.toString()), rule });
    return undefined;
  };
  const refuse = (expected: string) => fault(`must be of type ${expected}`);
  const rules = rulesOf(shape, result.latest);
  const is = (expected: DuckDBTypeId) => type.typeId === expected;
  switch (shape.kind) {
    case "any": {
      const named = faultyName(type, path);
      if (named) {
        result.faults.push(named);
        return undefined;
      }
      if (new RegExp(`[${unwanted}]`, "u").test(`${type}`)) return fault(controlsRule);
      return matchAny(type) ?? refuse(anyTypes);
    }
    case "list": {
      if (!is(DuckDBTypeId.LIST)) return refuse("LIST");
      if (result.empty.has(path)) return { nullable: false, kind: "list", of: leaf("VARCHAR", []) };
      const of = matchShape(shape.of, (type as DuckDBListType).valueType, `${path}[]`, result);
      return of && { nullable: false, kind: "list", of };
    }
    case "struct": {
      if (!is(DuckDBTypeId.STRUCT)) return refuse("STRUCT");
      const fields = matchFields(shape.members, membersOf(type as DuckDBStructType), `${path}.`, result);
      return { nullable: false, kind: "struct", fields };
    }
    case "integer":
      return isInteger(type) ? leaf("BIGINT", rules) : refuse("INTEGER, or another integer type");
    case "text":
      return isText(type) ? leaf("VARCHAR", rules) : refuse("VARCHAR");
    case "double":
      return is(DuckDBTypeId.DOUBLE) ? leaf("DOUBLE", rules) : refuse("DOUBLE");
    case "boolean":
      return is(DuckDBTypeId.BOOLEAN) ? leaf("BOOLEAN", []) : refuse("BOOLEAN");
    case "time":
      if (zoneless.has(type.typeId)) return refuse(`TIMESTAMP WITH TIME ZONE; ${zoneHelp}`);
      if (!is(DuckDBTypeId.TIMESTAMP_TZ)) return refuse("TIMESTAMP WITH TIME ZONE");
      return leaf("TIMESTAMPTZ", rules);
  }
}

/** What a source may choose where the contract leaves the type open. */
export const anyTypes =
  `text, boolean, integer, double, or lists, structs and maps of these, at most ${maxDepth} deep ` +
  `with at most ${maxLists} lists and maps within one another`;

/**
 * The shape of a part whose type the file chooses. Undefined for types that JSON cannot hold exactly, such as DECIMAL,
 * and for types nested more than `levels` deep or with more than `lists` lists and maps within one another.
 */
export function matchAny(type: DuckDBType, levels = maxDepth, lists = maxLists): FileShape | undefined {
  if (levels < 0 || lists < 0) return undefined;
  if (type.alias === "JSON")
    return leaf("JSON", [shortJson, shallowJson(levels), exactJson, cleanedJson, singleMembers], true);
  if (isText(type)) return leaf("VARCHAR", textRules, true);
  if (isInteger(type)) return leaf("BIGINT", [exactInteger], true);
  switch (type.typeId) {
    // Arrow's null type, which has no values.
    case DuckDBTypeId.SQLNULL:
      return leaf("BIGINT", [], true);
    case DuckDBTypeId.BOOLEAN:
      return leaf("BOOLEAN", [], true);
    // Every FLOAT is exactly a DOUBLE, and is printed as one.
    case DuckDBTypeId.DOUBLE:
    case DuckDBTypeId.FLOAT:
      return leaf("DOUBLE", [finite], true);
    case DuckDBTypeId.LIST: {
      const of = matchAny((type as DuckDBListType).valueType, levels - 1, lists - 1);
      return of && { nullable: true, kind: "list", of };
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType;
      const of = isText(keyType) ? matchAny(valueType, levels - 1, lists - 1) : undefined;
      return (
        of && {
          nullable: true,
          kind: "map",
          rules: [singleKeys],
          keys: leaf("VARCHAR", [noControls], true),
          of,
        }
      );
    }
    case DuckDBTypeId.STRUCT: {
      const members = membersOf(type as DuckDBStructType);
      const fields = members.flatMap(([name, member]) => {
        const shape = matchAny(member, levels - 1, lists);
        return shape ? [{ name, published: name, shape }] : [];
      });
      return fields.length === members.length ? { nullable: true, kind: "struct", fields } : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * The first member, at any depth, whose name JSON or DuckDB's types cannot hold: one without a name, or one that DuckDB
 * does not tell from another. A number at the end shows what DuckDB has already renamed in a script.
 */
export function faultyName(type: DuckDBType, path: string): { column: string; rule: string } | undefined {
  if (type instanceof DuckDBListType) return faultyName(type.valueType, `${path}[]`);
  if (type instanceof DuckDBMapType) return faultyName(type.valueType, path);
  if (!(type instanceof DuckDBStructType)) return undefined;
  const before = new Map<string, string>();
  for (const [name, part] of membersOf(type)) {
    const fault = (rule: string) => ({ column: `${path}.${name || '""'}`, rule });
    if (name === "") return fault("must have a name");
    const other = before.get(foldCase(name));
    if (other !== undefined) return fault(`must differ from ${other} in more than case`);
    const stem = name.replace(/_\d+$/, "");
    const renamed = before.get(foldCase(stem));
    if (stem !== name && renamed !== undefined && renamed !== stem)
      return fault(`must not have a name that DuckDB makes of ${stem} beside ${renamed}; rename one of them`);
    before.set(foldCase(name), name);
    const inner = faultyName(part, `${path}.${name}`);
    if (inner) return inner;
  }
  return undefined;
}

const exactInteger: Rule = {
  ...within({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
  rule: "must be an integer that JSON holds exactly, up to 2^53-1",
};

const shortJson: Rule = {
  rule: `must be at most ${maxRecordBytes} bytes of JSON`,
  holds: (value) => `strlen(${value}::VARCHAR) <= ${maxRecordBytes}`,
};

/**
 * DuckDB's JSON parser accepts NaN and Infinity, and passes on numbers of any size. Strings are emptied first, so that
 * their letters and digits do not count.
 */
const exactJson: Rule = {
  rule: "must be JSON without NaN, Infinity, and numbers that JavaScript cannot hold",
  holds: (value) => {
    const bare = bareJson(value);
    const numbers = `regexp_extract_all(${bare}, '-?[0-9][0-9.eE+-]*')`;
    // Every rule is applied to every row. A value that is too large is skipped here; it breaks another rule.
    return `CASE WHEN NOT ${shortJson.holds(value)} THEN true ELSE
      json_valid(${value}::VARCHAR) AND NOT regexp_matches(${bare}, '(?i)nan|inf')
      AND len(list_filter(${numbers}, lambda number: NOT coalesce(${exactNumber("number")}, false))) = 0 END`;
  },
};

/** Finds control characters and tags in texts and names of members, however they are written. */
const cleanedJson: Rule = {
  rule: controlsRule,
  holds: (value) => `CASE WHEN NOT ${shortJson.holds(value)} OR NOT json_valid(${value}::VARCHAR) THEN true
    ELSE ${cleanJson(value)} END`,
  inRecord: true,
};

const singleRule = "must not be the name of two members of one object";

const firstTwice = (names: string) =>
  `list_filter(${names}, lambda name, place: list_position(${names}, name) < place)[1]`;

/** A map with a key twice would become JSON with a member twice, of which readers keep one or the other. */
const singleKeys: Rule = {
  rule: singleRule,
  holds: (value) => `len(list_distinct(map_keys(${value}))) = len(map_keys(${value}))`,
  shown: (value) => `to_json(${firstTwice(`map_keys(${value})`)})`,
};

/** SQL for the member names of an object, at any depth, that has a name twice; null where there is none. */
const namesTwice = (value: string) =>
  `list_filter(list_transform(list_prepend(${value}::JSON, json_extract(${value}, '$..*')),
    lambda part: json_keys(part)), lambda names: len(list_distinct(names)) < len(names))[1]`;

/** Looks only where there are two members, and where the work is bounded. */
const singleMembers: Rule = {
  rule: singleRule,
  holds: (value) => `CASE WHEN ${value}::VARCHAR NOT LIKE '%:%:%' OR NOT ${shortJson.holds(value)}
    OR NOT ${shallowJson(maxDepth).holds(value)} OR NOT json_valid(${value}::VARCHAR) THEN true
    ELSE ${namesTwice(value)} IS NULL END`,
  shown: (value) => `to_json(${firstTwice(namesTwice(value))})`,
};

/** SQL that is true when JavaScript can hold the number in a text, exactly if it is an integer. */
function exactNumber(text: string): string {
  return `CASE WHEN regexp_matches(${text}, '[.eE]') THEN isfinite(TRY_CAST(${text} AS DOUBLE))
    ELSE ${exactInteger.holds(`TRY_CAST(${text} AS HUGEINT)`)} END`;
}
