import type { KeyRange } from "../sources.ts";
import { quoted } from "./sql-literals.ts";

/**
 * SQL that holds for the rows of a range, and for no sound row outside of it. Times are truncated to milliseconds, as
 * in keys. The conditions on time alone let DuckDB skip row groups.
 */
export function withinRange({ from, before }: KeyRange): string {
  return [
    ...(from
      ? [
          `resolved_at >= ${at(from.resolvedAt)}`,
          `(resolved_at >= ${at(from.resolvedAt + 1)} OR id >= ${quoted(from.id)})`,
        ]
      : []),
    ...(before
      ? [
          `resolved_at < ${at(before.resolvedAt + 1)}`,
          `(resolved_at < ${at(before.resolvedAt)} OR id < ${quoted(before.id)})`,
        ]
      : []),
    "true",
  ].join(" AND ");
}

const at = (milliseconds: number) => `TIMESTAMPTZ ${quoted(new Date(milliseconds).toISOString())}`;
