import { quoted } from "../duckdb.ts";
import type { SourceFile } from "./files.ts";

/** A table function over files of identical columns. */
export function readParquet(files: readonly SourceFile[]): string {
  // DuckDB takes * ? and [ in names for patterns; in brackets they stand for themselves.
  const paths = files.map(({ path }) => quoted(path.replaceAll(/[*?[]/g, "[$&]")));
  return `read_parquet([${paths.join(", ")}], hive_partitioning = false, union_by_name = false)`;
}

/** SELECT of the same expressions from all groups. */
export function selectFromAll(
  groups: readonly { files: readonly SourceFile[] }[],
  expressions: string,
  where = "true",
): string {
  return groups
    .map(({ files }) => `SELECT ${expressions} FROM ${readParquet(files)} WHERE ${where}`)
    .join(" UNION ALL ");
}
