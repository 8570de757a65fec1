import type { DuckDBConnection } from "@duckdb/node-api";
import { readParquet, selectFromAll } from "../duckdb/parquet.ts";
import { type OpenSource, readSource } from "../duckdb/read-source.ts";
import { describeRow, placesPerRule, type Refusal, rowNumber, SourceRefusal } from "./refusals.ts";

/**
 * Throws SourceRefusal naming the rows that share a key. It names those of the first keys, so every run names the same
 * ones.
 */
export async function refuseDuplicates(source: OpenSource): Promise<void> {
  const { key } = source.table.unique;
  if (source.groups.length === 0) return;
  await readSource(source, async (connection) => {
    const result = await connection.runAndReadAll(
      `SELECT key::VARCHAR, (sum(count(*)) OVER ())::DOUBLE
       FROM (${selectFromAll(source.groups, `${key} AS key`)}) WHERE key IS NOT NULL
       GROUP BY key HAVING count(*) > 1 ORDER BY key LIMIT ${placesPerRule}`,
    );
    const rows = result.getRows();
    const keys = rows.map(([value]) => String(value));
    if (keys.length > 0) await refuseKeys(connection, source, { keys, total: Number(rows[0]![1]) });
  });
}

async function refuseKeys(
  connection: DuckDBConnection,
  { table, groups }: OpenSource,
  { keys, total }: { keys: readonly string[]; total: number },
): Promise<void> {
  const { key, column, rule } = table.unique;
  const named: Refusal[] = [];
  for (const group of groups) {
    const { files, columns } = group;
    for (const file of files) {
      const places = await connection.runAndReadAll(
        `SELECT ${rowNumber(columns)}::VARCHAR, ${table.label}, ${key}::VARCHAR AS key
         FROM ${readParquet({ ...group, files: [file] })} WHERE list_contains(from_json($keys, '["VARCHAR"]'), ${key}::VARCHAR)
         ORDER BY key, ${rowNumber(columns)} LIMIT ${placesPerRule}`,
        { keys: JSON.stringify(keys) },
      );
      for (const [row, label, value] of places.getRows()) {
        named.push({ file: file.name, row: describeRow(row, label), column, value: String(value), rule });
      }
    }
  }
  // None are found when a file has changed between the two queries.
  if (named.length === 0) return;
  throw new SourceRefusal(named.slice(0, placesPerRule), new Map([[rule, total]]));
}
