import { type DuckDBConnection, DuckDBDataChunk, INTEGER, UBIGINT } from "@duckdb/node-api";
import type { FileGroup } from "./file-groups.ts";
import { boundedRow } from "./record-size.ts";
import type { KnownRows } from "./sources.ts";
import { identifier, quoted } from "./sql-literals.ts";

/** Increase it when the computation of digests or the checks of rows change: all rows are then checked again. */
const digestRevision = 4;

/** The rows of a chunk: DuckDB's vector size. */
const chunkRows = 2048;

/** Implements Sources.rowDigests. It includes DuckDB's version, since another version may hash differently. */
export async function digestKind(connection: DuckDBConnection): Promise<string> {
  const result = await connection.runAndReadAll("SELECT version()");
  return `duckdb-${result.getRows()[0]?.[0]}-${digestRevision}`;
}

/**
 * SQL for a market row's digest. DuckDB's hash does not see where nested lists end: it is the same for ["a"], [] as for
 * [], ["a"]. The text of the inner lists is therefore hashed too, and so are the columns' signature, because the names
 * of struct members do not count either, and the signs of numbers, because 0.0 and -0.0 differ in JSON.
 */
function digestOf({ fields, signature }: FileGroup): string {
  const lists = `to_json(list_transform(dimensions, lambda dimension: {
    evidence: len(dimension.evidence), "references": dimension."references",
    signs: [signbit(dimension.weight), signbit(dimension.computation.baseline)],
    raises: dimension.computation.raises, lowers: dimension.computation.lowers}))::VARCHAR`;
  return `hash(${[quoted(signature), ...fields.map(({ name }) => identifier(name)), lists].join(", ")})`;
}

/** SQL for the digest of a row that keeps the rules `sound`, and null for others: their text could take all memory. */
export function rowDigest(group: FileGroup, sound = boundedRow(group.fields)): string {
  return `CASE WHEN ${sound} THEN ${digestOf(group)} END`;
}

/** Fills the session's table `known` (digest, ordinal). */
export async function loadKnownRows(
  connection: DuckDBConnection,
  known: KnownRows["digests"],
): Promise<void> {
  await connection.run("CREATE OR REPLACE TABLE known (digest UBIGINT, ordinal INTEGER)");
  const appender = await connection.createAppender("known");
  try {
    for await (const { start, digests } of known) {
      for (let first = 0; first < digests.length; first += chunkRows) {
        const part = Array.from(digests.subarray(first, first + chunkRows));
        const chunk = DuckDBDataChunk.create([UBIGINT, INTEGER], part.length);
        chunk.setColumns([part, part.map((_, n) => start + first + n)]);
        appender.appendDataChunk(chunk);
      }
    }
    appender.flushSync();
  } finally {
    appender.closeSync();
  }
  await connection.run("DELETE FROM known WHERE digest = 0");
}
