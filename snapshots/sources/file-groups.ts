import type { DuckDBConnection, DuckDBType } from "@duckdb/node-api";
import type { FileField } from "./file-column.ts";
import { matchColumns } from "./match-columns.ts";
import { readingFault, readParquet } from "./parquet.ts";
import { sizeRules } from "./record-size.ts";
import { RefusalList } from "./refusals.ts";
import type { SourceFile } from "./source-files.ts";
import type { RowRule, SourceTable } from "./table-schema.ts";

/**
 * Files of one source with identical columns. DuckDB takes the columns of a list of files from the first and
 * narrows the others to them silently, so only such files are read together.
 */
export interface FileGroup {
  files: SourceFile[];
  fields: readonly FileField[];
  /** The table's, and those on the size of what these files hold. */
  rowRules: readonly RowRule[];
  /** Names of all columns, also those that the contract does not name. */
  columns: ReadonlySet<string>;
  /** Names and types of all columns, down to the members of structs. */
  signature: string;
}

/** A source whose files all have the columns of the contract. */
export interface GroupedSource {
  groups: readonly FileGroup[];
  /** Columns, and members of structs, that the contract does not name. */
  extra: readonly string[];
}

/** Compares every file's columns with the contract. Throws SourceRefusal naming file, column and type. */
export async function groupFiles(
  connection: DuckDBConnection,
  table: SourceTable,
  files: readonly SourceFile[],
): Promise<GroupedSource> {
  const refusals = new RefusalList();
  const bySignature = new Map<string, FileGroup>();
  const extra = new Set<string>();
  for (const file of files) {
    const columns = await describe(connection, file, refusals);
    // Types as JSON tell JSON columns from text; their names do not.
    const signature = JSON.stringify([...columns].map(([name, type]) => [name, type.toJson()]));
    if (columns.size === 0) continue;
    const { fields, faults, extra: unnamed } = matchColumns(table.fields, columns);
    for (const fault of faults) refusals.add({ file: file.name, ...fault });
    for (const name of unnamed) extra.add(name);
    const group = bySignature.get(signature);
    if (group) group.files.push(file);
    else {
      const rowRules = [...table.rowRules, ...sizeRules(fields)];
      bySignature.set(signature, {
        files: [file],
        fields,
        rowRules,
        columns: new Set(columns.keys()),
        signature,
      });
    }
  }
  refusals.throwIfAny();
  return { groups: [...bySignature.values()], extra: [...extra].sort() };
}

/** The columns of a file; none, and a refusal, when it cannot be read. */
async function describe(
  connection: DuckDBConnection,
  file: SourceFile,
  refusals: RefusalList,
): Promise<Map<string, DuckDBType>> {
  try {
    const result = await connection.run(`SELECT * FROM ${readParquet([file])} LIMIT 0`);
    const types = result.columnTypes();
    return new Map(result.columnNames().map((name, index) => [name, types[index]!]));
  } catch (error) {
    refusals.add({ file: file.name, rule: readingFault(error) });
    return new Map();
  }
}
