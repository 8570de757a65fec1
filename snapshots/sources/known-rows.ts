import { type DuckDBConnection, DuckDBDataChunk, INTEGER, UBIGINT } from "@duckdb/node-api";
import type { FileGroup } from "./file-groups.ts";
import { boundedRow } from "./record-size.ts";
import type { KnownRows } from "./sources.ts";
import { identifier, quoted } from "./sql-literals.ts";

/** Raised when a row's digest or the checks of a row change: rows known by older digests are then checked again. */
const digestRevision = 4;

/** Rows of a chunk, DuckDB's vector size. */
const chunkRows = 2048;

/** See Sources.rowDigests. DuckDB may hash otherwise in another version. */
export async function digestKind(connection: DuckDBConnection): Promise<string> {
  const result = await connection.runAndReadAll("SELECT version()");
  return `duckdb-${result.getRows()[0]?.[0]}-${digestRevision}`;
}

/**
 * SQL of a market row's digest. DuckDB's hash runs the elements of nested lists together, so that ["a"], [] and [], ["a"]
 * side by side are the same to it; the text of the inner lists tells them apart. So does the columns' signature for
 * structs with other names, and the sign of a zero, which JSON shows, for 0.0 and -0.0.
 */
export function rowDigest({ fields, signature }: FileGroup): string {
  const lists = `to_json(list_transform(dimensions, lambda dimension: {
    evidence: len(dimension.evidence), "references": dimension."references",
    signs: [signbit(dimension.weight), signbit(dimension.computation.baseline)],
    raises: dimension.computation.raises, lowers: dimension.computation.lowers}))::VARCHAR`;
  const digest = `hash(${[quoted(signature), ...fields.map(({ name }) => identifier(name)), lists].join(", ")})`;
  // Rows that are too large or too deep have none and are refused: their text could take all memory.
  return `CASE WHEN ${boundedRow(fields)} THEN ${digest} END`;
}

/** Fills the table `known` (digest, ordinal) of the session. */
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
