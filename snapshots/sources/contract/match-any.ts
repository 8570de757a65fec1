import {
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { foldCase, isInteger, isText, membersOf } from "../duckdb/duckdb.ts";
import { cleanJson, controlsRule } from "./control-characters.ts";
import { type FileShape, leaf } from "./file-column.ts";
import { bareJson, maxDepth, maxLists, maxRecordBytes, shallowJson } from "./row-checks.ts";
import { between, finite, noControls, type Rule, textRules } from "./table-schema.ts";

/**
 * The shape of a part whose type the file chooses. Undefined for types that JSON cannot hold exactly, such as DECIMAL,
 * and for types nested more than `levels` deep or with more than `lists` lists and maps within one another.
 */
export function matchAny(type: DuckDBType, levels = maxDepth, lists = maxLists): FileShape | undefined {
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
      const of = inside((type as DuckDBListType).valueType, levels, lists - 1);
      return of && { nullable: true, kind: "list", of };
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType;
      const of = isText(keyType) ? inside(valueType, levels, lists - 1) : undefined;
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
    case DuckDBTypeId.STRUCT:
      return matchAnyStruct(type as DuckDBStructType, levels, lists);
    default:
      return undefined;
  }
}

function inside(type: DuckDBType, levels: number, lists: number): FileShape | undefined {
  return levels > 0 && lists >= 0 ? matchAny(type, levels - 1, lists) : undefined;
}

function matchAnyStruct(type: DuckDBStructType, levels: number, lists: number): FileShape | undefined {
  const members = membersOf(type).map(([name, member]) => {
    const shape = inside(member, levels, lists);
    return shape && { name, published: name, shape };
  });
  const fields = members.filter((member) => member !== undefined);
  return fields.length === members.length ? { nullable: true, kind: "struct", fields } : undefined;
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

const exactBetween = between(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);

const exactInteger: Rule = {
  rule: "must be an integer that JSON holds exactly, up to 2^53-1",
  holds: exactBetween,
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

/** SQL for the names of the members of an object, at any depth, that has one twice, or null. */
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
    ELSE ${exactBetween(`TRY_CAST(${text} AS HUGEINT)`)} END`;
}
