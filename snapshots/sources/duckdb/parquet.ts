import { messageOf } from "../../store/errors.ts";
import type { SourceFile } from "../files/source-files.ts";
import { literalPath, textList } from "./sql-literals.ts";

export function fileList(files: readonly SourceFile[]): string {
  return textList(files.map(({ path }) => literalPath(path)));
}

/** Files with identical columns. */
export interface AlikeFiles {
  files: readonly SourceFile[];
  /** SQL of the columns under their own names, where DuckDB has given them others. */
  renamed?: readonly string[] | undefined;
}

export function readParquet({ files, renamed }: AlikeFiles): string {
  const rows = `read_parquet(${fileList(files)}, hive_partitioning = false, union_by_name = false)`;
  return renamed ? `(SELECT ${renamed.join(", ")} FROM ${rows})` : rows;
}

/** SELECT of the same expressions from all groups of files. */
export function selectFromAll(groups: readonly AlikeFiles[], expressions: string, where = "true"): string {
  return groups
    .map((group) => `SELECT ${expressions} FROM ${readParquet(group)} WHERE ${where}`)
    .join(" UNION ALL ");
}

/** What DuckDB says about a file that it cannot read, on one line. Throws errors that are not the file's fault. */
export function readingFault(error: unknown): string {
  const [said = ""] = faultOf(error).split("\n");
  const unfinished = /too small to be a Parquet file|[Nn]o magic bytes/.test(said);
  return `cannot be read: ${said}${unfinished ? "; it is empty, or was not written to its end" : ""}`;
}

export const isOutOfMemory = (error: unknown) => messageOf(error).startsWith("Out of Memory");

/** What DuckDB says about data or SQL. Throws errors that are the fault of neither. */
export function faultOf(error: unknown): string {
  const message = messageOf(error);
  if (/^(Out of Memory|INTERRUPT)|No space left on device/.test(message)) throw error;
  return message;
}
