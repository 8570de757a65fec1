import { type DuckDBConnection, DuckDBDataChunk, INTEGER, UBIGINT } from "@duckdb/node-api";
import { sha256 } from "../../store/layout.ts";
import { boundedRow } from "../contract/row-checks.ts";
import { marketsTable } from "../contract/source-tables.ts";
import type { SourceTable } from "../contract/table-schema.ts";
import type { FileGroup } from "../files/file-groups.ts";
import type { KnownRows } from "../sources.ts";
import { identifier, quoted } from "./sql-literals.ts";

/**
 * Increase it when digests, checks of rows, or what is rendered of a row change: unread files keep what was made then.
 * `contractDigest` covers changes of the columns or their rules.
 */
const digestRevision = 5;

/** DuckDB's vector size. */
const chunkRows = 2048;

/** Implements Sources.rowDigests. It includes DuckDB's version, since another version may hash differently. */
export async function digestKind(connection: DuckDBConnection): Promise<string> {
  const result = await connection.runAndReadAll("SELECT version()");
  // The latest time that a row may have differs from run to run, and is no part of the contract.
  const contract = contractDigest(marketsTable(new Date(0)));
  return `duckdb-${result.getRows()[0]?.[0]}-${digestRevision}-${contract}`;
}

/** Covers columns with their published names and order, and their rules. */
export function contractDigest({ unique: _, ...table }: SourceTable): string {
  const text = JSON.stringify(table, (_, value) => (typeof value === "function" ? value("value") : value));
  return sha256(text).slice(0, 16);
}

/**
 * SQL for a market row's digest. DuckDB's hash does not see where nested lists end: it is the same for ["a"], [] as for
 * [], ["a"]. So the text of the inner lists is hashed too. So are the columns' signature, because names of struct
 * members do not count either, and the signs of numbers, because 0.0 and -0.0 differ in JSON.
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
