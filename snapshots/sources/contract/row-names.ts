/**
 * SQL for a row's number within its file, from 0. It is NULL when the file has a column named file_row_number, which
 * hides DuckDB's own.
 */
export function rowNumber(columns: ReadonlySet<string>): string {
  return columns.has("file_row_number") ? "NULL" : "file_row_number";
}

/** A row as refusals name it: `row 17 (label)`, or only its label when it has no number. */
export function describeRow(row: unknown, label: unknown): string {
  const shown = typeof label === "string" ? label.slice(0, 100) : "null";
  return row === null ? shown : `row ${row} (${shown})`;
}
