import {
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";
import { isInteger, isText, membersOf } from "../duckdb/duckdb.ts";
import { cleanJson, controlsRule } from "./control-characters.ts";
import { type FileShape, leaf } from "./file-column.ts";
import { bareJson, maxDepth, maxLists, maxRecordBytes, shallowJson } from "./record-size.ts";
import { between, finite, noControls, type Rule, textRules } from "./table-schema.ts";

/**
 * The shape of a part whose type the file chooses. Returns undefined for types that JSON cannot hold exactly, such as
 * DECIMAL, and for types nested more than `levels` deep or with more than `lists` lists and maps within one another.
 */
export function matchAny(type: DuckDBType, levels = maxDepth, lists = maxLists): FileShape | undefined {
  if (type.alias === "JSON")
    return leaf("JSON", [shortJson, shallowJson(levels), exactJson, cleanedJson], true);
  if (isText(type)) return leaf("VARCHAR", textRules, true);
  if (isInteger(type)) return leaf("BIGINT", [exactInteger], true);
  switch (type.typeId) {
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
      return of && { nullable: true, kind: "map", keys: leaf("VARCHAR", [noControls], true), of };
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
  const members = [...membersOf(type)].map(([name, member]) => {
    const shape = inside(member, levels, lists);
    return shape && { name, published: name, shape };
  });
  const fields = members.filter((member) => member !== undefined);
  return fields.length === members.length ? { nullable: true, kind: "struct", fields } : undefined;
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
 * DuckDB's JSON parser accepts NaN and Infinity, and passes on numbers of any size. The rule empties strings first, so
 * that their letters and digits do not count.
 */
const exactJson: Rule = {
  rule: "must be JSON without NaN, Infinity, and numbers that JavaScript cannot hold",
  holds: (value) => {
    const bare = bareJson(value);
    const numbers = `regexp_extract_all(${bare}, '-?[0-9][0-9.eE+-]*')`;
    // All rules are applied to every row, so a value that is too large is skipped here; it breaks another rule.
    return `CASE WHEN NOT ${shortJson.holds(value)} THEN true ELSE
      json_valid(${value}::VARCHAR) AND NOT regexp_matches(${bare}, '(?i)nan|inf')
      AND len(list_filter(${numbers}, lambda number: NOT coalesce(${exactNumber("number")}, false))) = 0 END`;
  },
};

/** Refuses control characters and tags in its texts and in the names of its members, however they are written. */
const cleanedJson: Rule = {
  rule: controlsRule,
  holds: (value) => `CASE WHEN NOT ${shortJson.holds(value)} OR NOT json_valid(${value}::VARCHAR) THEN true
    ELSE ${cleanJson(value)} END`,
  inRecord: true,
};

/** SQL that is true when JavaScript can hold the number in a text, exactly if it is an integer. */
function exactNumber(text: string): string {
  return `CASE WHEN regexp_matches(${text}, '[.eE]') THEN isfinite(TRY_CAST(${text} AS DOUBLE))
    ELSE ${exactBetween(`TRY_CAST(${text} AS HUGEINT)`)} END`;
}
