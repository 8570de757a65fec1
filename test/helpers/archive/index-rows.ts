import type { IndexRow } from "../../../snapshots/index/index-header.ts";
import { fieldsIn } from "../../../snapshots/index/index-reader.ts";
import { decodeColumns, openColumns } from "../../../snapshots/index/segment.ts";
import type { WordTable } from "../../../snapshots/index/word-table.ts";

/** The rows that a segment was made of, by ordinal, with the fields that it has columns for. */
export function decodeRows(key: string, stored: Buffer): IndexRow[] {
  const { times, values } = decodeColumns(key, stored);
  const columns = fieldsIn(openColumns(key, stored).columns).map(
    ({ field }) => [field, values(field)] as const,
  );
  return times.map((resolvedAt, ordinal) => {
    const row = Object.fromEntries(columns.map(([field, column]) => [field, column[ordinal]]));
    return { resolvedAt, values: row as IndexRow["values"] };
  });
}

/** The words of each market by ordinal. */
export function decodeWords(table: WordTable): string[][] {
  const markets = Array.from({ length: table.markets }, (): string[] => []);
  for (const [word, ordinals] of table.words()) for (const ordinal of ordinals) markets[ordinal]!.push(word);
  return markets;
}
