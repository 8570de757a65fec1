import type { ColumnStats } from "../../schemas/store/snapshot.ts";
import { openSession, withConnection } from "../sources/duckdb/duckdb.ts";
import { identifier, literalPath, quoted } from "../sources/duckdb/sql-literals.ts";
import { exportedColumns } from "./market-columns.ts";

/** Longer texts would make records long and tell little. */
const maxCharacters = 64;

const ordered = exportedColumns.filter(({ shape }) =>
  ["text", "integer", "double", "time"].includes(shape.kind),
);

/**
 * The least and the greatest value of each column that has an order, and how many nulls it has. Texts are ordered by
 * their UTF-8 bytes; times are ISO 8601.
 */
export async function fileStats(path: string, temporaryDirectory: string): Promise<ColumnStats> {
  const values = ordered.flatMap(({ name, shape }) => {
    const column = shape.kind === "time" ? `epoch_ms(${identifier(name)})` : identifier(name);
    return [`min(${column})`, `max(${column})`, `count(*) - count(${column})`];
  });
  const instance = await openSession({
    memoryMegabytes: 600,
    temporaryDirectory,
    threads: 1,
    ordered: true,
    allowedPaths: [path],
  });
  try {
    const [row = []] = await withConnection(instance, async (connection) => {
      const answer = await connection.runAndReadAll(
        `SELECT ${values} FROM read_parquet(${quoted(literalPath(path))})`,
      );
      return answer.getRows();
    });
    const stats: ColumnStats = { minValues: {}, maxValues: {}, nullCount: {} };
    for (const [index, { name, shape }] of ordered.entries()) {
      const [least, greatest, nulls] = row.slice(3 * index, 3 * index + 3);
      stats.nullCount[name] = Number(nulls);
      const [min, max] = [least, greatest].map((value) => told(value, shape.kind));
      if (min === undefined || max === undefined) continue;
      stats.minValues[name] = min;
      stats.maxValues[name] = max;
    }
    return stats;
  } finally {
    instance.closeSync();
  }
}

/** Undefined where statistics leave the value out. */
function told(value: unknown, kind: string): string | number | undefined {
  if (value === null || value === undefined) return undefined;
  if (kind === "time") return new Date(Number(value)).toISOString();
  if (kind !== "text") return Number(value);
  return String(value).length <= maxCharacters ? String(value) : undefined;
}
