import type { DuckDBConnection } from "@duckdb/node-api";
import { withConnection } from "../duckdb/duckdb.ts";
import { readParquet, selectFromAll } from "../duckdb/parquet.ts";
import { type OpenSource, readSource, refuseChangedFiles } from "../duckdb/read-source.ts";
import type { FileGroup } from "../files/file-groups.ts";
import { jsonOfRow } from "./file-column.ts";
import {
  describeRow,
  placesPerRule,
  type Refusal,
  RefusalList,
  rowNumber,
  SourceRefusal,
} from "./refusals.ts";
import { faultsOfRow, maxRecordBytes, recordRule, soundRow } from "./row-checks.ts";
import type { SourceTable } from "./table-schema.ts";

/**
 * Throws SourceRefusal naming the rows that break a rule and what is wrong with them. Call it when a query has found
 * such a row.
 */
export async function refuseRows(source: OpenSource): Promise<never> {
  await refuseBrokenRows(source);
  // Reached only when a file changed between the two queries.
  await refuseChangedFiles(source);
  throw new Error(`${source.table.name}: a row broke a rule, but a second look found none`);
}

/** Looks at every row, and throws SourceRefusal naming those that break a rule and what is wrong with them. */
export async function refuseBrokenRows(source: OpenSource): Promise<void> {
  const refusals = new RefusalList();
  await withConnection(source.instance, async (connection) => {
    for (const group of source.groups) {
      for (const file of group.files) {
        const from = readParquet({ ...group, files: [file] });
        const rows = { ...group, from, row: rowNumber(group.columns), file: file.name };
        await diagnose(connection, source.table, rows, refusals);
      }
    }
  });
  refusals.throwIfAny();
  await refuseLarge(source);
}

/** `from` is SQL for the rows, and `row` SQL for their numbers. Messages name `file`. */
interface NumberedRows extends Pick<FileGroup, "fields" | "rowRules"> {
  from: string;
  row: string;
  file: string;
}

/** Adds the rows that break a rule and what is wrong with them. */
export async function diagnose(
  connection: DuckDBConnection,
  { label }: SourceTable,
  { fields, rowRules, from, row, file }: NumberedRows,
  refusals: RefusalList,
): Promise<void> {
  const result = await connection.runAndReadAll(
    `WITH broken AS (SELECT ${row}::BIGINT AS row, ${label} AS label, ${faultsOfRow(fields, rowRules)} AS faults
       FROM ${from} WHERE NOT ${soundRow(fields, rowRules)}),
     single AS (SELECT row, label, unnest(faults) AS fault, generate_subscripts(faults, 1) AS place FROM broken),
     named AS (SELECT fault.rule AS rule, count(*) AS total, min(place) AS place,
         arg_min({'row': row, 'label': left(label, 100), 'column': fault.column, 'value': fault.value},
           coalesce(row, 0) * 1000000 + place, ${placesPerRule}) AS places
       FROM single GROUP BY ALL)
     SELECT rule, total::DOUBLE, to_json(places)::VARCHAR FROM named ORDER BY places[1].row, place, rule`,
  );
  for (const [rule, total, json] of result.getRows()) {
    const places: { row: number | null; label: string | null; column: string; value: string }[] = JSON.parse(
      String(json),
    );
    const named = places.map(({ row, label, ...place }) => ({
      file,
      row: describeRow(row, label),
      ...place,
      rule: String(rule),
    }));
    refusals.addAll(String(rule), named, Number(total));
  }
}

/** Throws SourceRefusal naming the rows whose record is too large. The source must keep every other rule. */
async function refuseLarge({ instance, table, groups }: OpenSource): Promise<void> {
  const refusals = new RefusalList();
  await withConnection(instance, async (connection) => {
    for (const group of groups) {
      const { fields, columns, files } = group;
      const bytes = `strlen(${jsonOfRow(fields)})`;
      for (const file of files) {
        const result = await connection.runAndReadAll(
          `SELECT ${rowNumber(columns)}::VARCHAR, ${table.label}, ${bytes}, (count(*) OVER ())::DOUBLE
           FROM ${readParquet({ ...group, files: [file] })} WHERE ${bytes} > ${maxRecordBytes} LIMIT ${placesPerRule}`,
        );
        const rows = result.getRows();
        const places = rows.map(([row, label, size]) => {
          return { file: file.name, row: describeRow(row, label), value: `${size} bytes`, rule: recordRule };
        });
        if (places.length > 0) refusals.addAll(recordRule, places, Number(rows[0]![3]));
      }
    }
  });
  refusals.throwIfAny();
}

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
