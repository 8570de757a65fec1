import { type DuckDBStructType, type DuckDBType, DuckDBTypeId } from "@duckdb/node-api";

const integerTypes = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
]);

/** Any type of integers that Parquet has. */
export function isInteger(type: DuckDBType): boolean {
  return integerTypes.has(type.typeId);
}

/** Plain text. JSON is text under another name. */
export function isText(type: DuckDBType): boolean {
  return type.typeId === DuckDBTypeId.VARCHAR && type.alias === undefined;
}

/** Types of a struct's members by name. */
export function membersOf(type: DuckDBStructType): Map<string, DuckDBType> {
  return new Map(type.entryNames.map((name, index) => [name, type.entryTypes[index]!]));
}
