import { type DuckDBListType, type DuckDBStructType, type DuckDBType, DuckDBTypeId } from "@duckdb/node-api";
import { shorten } from "../../../schemas/errors.ts";
import { isInteger, isText, membersOf, type NamedType } from "../duckdb/duckdb.ts";
import { controlsRule, unwanted } from "./control-characters.ts";
import { type FileField, type FileShape, leaf } from "./file-column.ts";
import { faultyName, matchAny } from "./match-any.ts";
import { maxDepth, maxLists } from "./row-checks.ts";
import { type Field, type Shape, within } from "./table-schema.ts";

interface SchemaFault {
  column: string;
  value?: string;
  rule: string;
}

export interface ColumnMatch {
  fields: readonly FileField[];
  faults: readonly SchemaFault[];
  /** Columns and struct members that the contract does not name. */
  extra: readonly string[];
}

export function matchColumns(fields: readonly Field[], columns: readonly NamedType[]): ColumnMatch {
  const found: Findings = { faults: [], extra: [] };
  return { fields: matchFields(fields, columns, "", found), ...found };
}

interface Findings {
  faults: SchemaFault[];
  extra: string[];
}

function matchFields(
  fields: readonly Field[],
  types: readonly NamedType[],
  prefix: string,
  found: Findings,
): FileField[] {
  const known = new Set(fields.map(({ name }) => name));
  for (const [name] of types) if (!known.has(name)) found.extra.push(prefix + name);
  const otherwise = writtenOtherwise(fields, types, prefix);
  found.faults.push(...otherwise.faults);
  return fields.flatMap(({ name, published = name, shape }) => {
    const [type, again] = types.flatMap((one) => (one[0] === name ? [one[1]] : []));
    if (!type || again) {
      if (again) found.faults.push({ column: prefix + name, rule: "must not be there twice" });
      else if (!otherwise.names.has(name)) found.faults.push({ column: prefix + name, rule: "is missing" });
      return [];
    }
    const matched = matchShape(shape, type, prefix + name, found);
    return matched ? [{ name, published, shape: matched }] : [];
  });
}

/** Fields whose names occur with other case or separators, and one fault for all of them. */
function writtenOtherwise(
  fields: readonly Field[],
  types: readonly NamedType[],
  prefix: string,
): { names: ReadonlySet<string>; faults: SchemaFault[] } {
  const there = new Set(types.map(([name]) => name));
  const lookAlikes = new Map(types.map(([name]) => [letters(name), name]));
  const found = fields.flatMap(({ name }): [string, string][] => {
    const other = there.has(name) ? undefined : lookAlikes.get(letters(name));
    return other === undefined ? [] : [[name, other]];
  });
  const [names, others] = [found.map(([name]) => name), found.map(([, other]) => prefix + other)];
  const rule = `must be written ${names.join(", ")}: names are in lower case, with underscores between words`;
  return { names: new Set(names), faults: found.length > 0 ? [{ column: others.join(", "), rule }] : [] };
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

function matchShape(shape: Shape, type: DuckDBType, path: string, found: Findings): FileShape | undefined {
  const fault = (rule: string) => {
    found.faults.push({ column: path, value: shorten(type.alias ?? type.toString()), rule });
    return undefined;
  };
  const refuse = (expected: string) => fault(`must be of type ${expected}`);
  // The items of a list that is empty in all rows have no other type. A column without values is a mistake.
  const noItems = type.typeId === DuckDBTypeId.SQLNULL && path.includes("[]");
  const is = (expected: DuckDBTypeId) => type.typeId === expected || noItems;
  switch (shape.kind) {
    case "any": {
      const named = faultyName(type, path);
      if (named) {
        found.faults.push(named);
        return undefined;
      }
      if (new RegExp(`[${unwanted}]`, "u").test(`${type}`)) return fault(controlsRule);
      return matchAny(type) ?? refuse(anyTypes);
    }
    case "list": {
      if (!is(DuckDBTypeId.LIST)) return refuse("LIST");
      const items = type.typeId === DuckDBTypeId.LIST ? (type as DuckDBListType).valueType : type;
      const of = matchShape(shape.of, items, `${path}[]`, found);
      return of && { nullable: false, kind: "list", of };
    }
    case "struct": {
      if (!is(DuckDBTypeId.STRUCT)) return refuse("STRUCT");
      const members =
        type.typeId === DuckDBTypeId.STRUCT
          ? membersOf(type as DuckDBStructType)
          : shape.fields.map(({ name }): NamedType => [name, type]);
      const fields = matchFields(shape.fields, members, `${path}.`, found);
      return { nullable: false, kind: "struct", fields };
    }
    case "integer": {
      if (!isInteger(type) && !is(DuckDBTypeId.BIGINT)) return refuse("INTEGER, or another integer type");
      return leaf("BIGINT", [within(shape)]);
    }
    case "text":
      return isText(type) || noItems ? leaf("VARCHAR", shape.rules) : refuse("VARCHAR");
    case "double":
      return is(DuckDBTypeId.DOUBLE) ? leaf("DOUBLE", shape.rules) : refuse("DOUBLE");
    case "boolean":
      return is(DuckDBTypeId.BOOLEAN) ? leaf("BOOLEAN", []) : refuse("BOOLEAN");
    case "time":
      if (zoneless.has(type.typeId)) return refuse(`TIMESTAMP WITH TIME ZONE; ${zoneHelp}`);
      if (!is(DuckDBTypeId.TIMESTAMP_TZ)) return refuse("TIMESTAMP WITH TIME ZONE");
      return { ...leaf("TIMESTAMPTZ", shape.rules), time: true };
  }
}

/** What a source may choose where the contract leaves the type open. */
export const anyTypes =
  `text, boolean, integer, double, or lists, structs and maps of these, at most ${maxDepth} deep ` +
  `with at most ${maxLists} lists and maps within one another`;
