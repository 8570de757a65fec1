import { milliseconds } from "../contract/file-column.ts";
import { soundRow } from "../contract/row-checks.ts";
import type { FiledKey } from "../sources.ts";
import { fileNumber, numberable } from "./markets.ts";
import { readParquet } from "./parquet.ts";
import { causeOf, type OpenSource, refuseChangedFiles } from "./read-source.ts";

/** Implements Sources.keys. DuckDB sorts, and spills what its memory does not hold. */
export async function* readKeys(source: OpenSource): AsyncGenerator<FiledKey[]> {
  const selects = source.groups.flatMap(numberable).map((group) => {
    const key = group.fields.filter(({ name }) => name === "id" || name === "resolved_at");
    return `SELECT ${milliseconds("resolved_at")}::DOUBLE AS time, id, (${fileNumber(source, group)})::INTEGER AS file
         FROM ${readParquet(group)} WHERE ${soundRow(key, [])}`;
  });
  if (selects.length === 0) return;
  const connection = await source.instance.connect();
  try {
    const result = await connection.stream(`${selects.join(" UNION ALL ")} ORDER BY time, id`);
    for await (const chunk of result) {
      const [times, ids, files] = [0, 1, 2].map((column) => chunk.getColumnVector(column));
      yield Array.from({ length: chunk.rowCount }, (_, row) => ({
        resolvedAt: times!.getItem(row) as number,
        id: ids!.getItem(row) as string,
        file: files!.getItem(row) as number,
      }));
    }
    await refuseChangedFiles(source);
  } catch (error) {
    throw await causeOf(source, error);
  } finally {
    connection.closeSync();
  }
}
