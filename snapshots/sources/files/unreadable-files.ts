import type { DuckDBConnection } from "@duckdb/node-api";
import { type Refusal, RefusalList } from "../contract/refusals.ts";
import { readingFault, readParquet } from "../duckdb/parquet.ts";
import { identifier } from "../duckdb/sql-literals.ts";
import type { FileGroup } from "./file-groups.ts";

/**
 * Finds the files that made a query fail, by reading every column of every file separately. Throws SourceRefusal naming
 * them; returns when all can be read, so that the error has another cause.
 */
export async function refuseUnreadable(
  connection: DuckDBConnection,
  groups: readonly FileGroup[],
): Promise<void> {
  const refusals = new RefusalList();
  for (const group of groups) {
    for (const file of group.files) {
      for (const { name } of group.fields) {
        const refusal = await columnFault(connection, { ...group, files: [file] }, name);
        if (refusal) refusals.add(refusal);
      }
    }
  }
  refusals.throwIfAny();
}

async function columnFault(
  connection: DuckDBConnection,
  group: FileGroup,
  column: string,
): Promise<Refusal | undefined> {
  const file = group.files[0]!;
  try {
    // Hashing reads every byte of every value. A count would be answered from the file's statistics.
    await connection.run(`SELECT max(hash(${identifier(column)})) FROM ${readParquet(group)}`);
    return undefined;
  } catch (error) {
    const fault = readingFault(error);
    const value = /value "(.*)" is not valid UTF8/s.exec(fault)?.[1];
    if (value === undefined) return { file: file.name, column, rule: fault };
    return {
      file: file.name,
      column,
      value: JSON.stringify(value.slice(0, 100)),
      rule: "must be valid UTF-8",
    };
  }
}
