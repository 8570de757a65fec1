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

/** Whether a type is one of Parquet's integer types. */
export function isInteger(type: DuckDBType): boolean {
  return integerTypes.has(type.typeId);
}

/** Whether a type is plain text. DuckDB's JSON type is text with an alias. */
export function isText(type: DuckDBType): boolean {
  return type.typeId === DuckDBTypeId.VARCHAR && type.alias === undefined;
}

/** The types of a struct's members by name. */
export function membersOf(type: DuckDBStructType): Map<string, DuckDBType> {
  return new Map(type.entryNames.map((name, index) => [name, type.entryTypes[index]!]));
}
