import { availableParallelism } from "node:os";
import { DuckDBBlobVector, type DuckDBInstance } from "@duckdb/node-api";
import { Fault } from "../../schemas/errors.ts";
import { idOfLine } from "../format/market-line.ts";
import type { Page } from "../format/page.ts";
import { leafHash, pageRootOf } from "../format/tree.ts";
import { maxRecordBytes } from "../sources/contract/row-checks.ts";
import { openSession, type SessionOptions, withConnection } from "../sources/duckdb/duckdb.ts";
import { literalPath, quoted } from "../sources/duckdb/sql-literals.ts";
import { exportColumns } from "./market-columns.ts";

/** DuckDB handles this many rows at once; row groups are multiples. */
export const blockRows = 2048;
/** The most blocks and the most text of a row group (snapshots/PUBLISHING.md, "Exports"). Both bound memory. */
const [maxBlocks, maxGroupBytes] = [16, 64 * 1024 * 1024];

/** Says what happened to the market, in files of changes. */
const changeColumn = "_change_type";
/** Separates the values of a line: JSON never contains it. */
export const valueSeparator = "\u0001";

/**
 * Reads one JSON text a line from `from`. `blocks` has the bytes of each block of rows. With `changes`, a line has what
 * happened, the separator and the text.
 */
export async function writeParquet(
  from: string,
  to: string,
  temporaryDirectory: string,
  blocks: readonly number[],
  { changes = false } = {},
): Promise<void> {
  const groupBlocks = blocksPerGroup(blocks);
  const largest = Math.max(0, ...groupsOf(blocks, groupBlocks)) / 1e6;
  const columns = exportColumns("json");
  const also = changes ? `, ${changeColumn}` : "";
  // An empty quote, and a delimiter that JSON never contains: each line is one value.
  const lines =
    `read_csv(${quoted(from)}, columns = {${changes ? `'${changeColumn}': 'VARCHAR', ` : ""}'json': 'VARCHAR'}, auto_detect = false, header = false, delim = chr(1), ` +
    `quote = '', escape = '', new_line = '\\n', max_line_size = ${2 * maxRecordBytes})`;
  const options = {
    ...memoryFor(largest),
    temporaryDirectory,
    ordered: true,
    allowedPaths: [from, to],
  };
  await inSession(
    options,
    `COPY (SELECT ${columns.columns}, json${also} FROM (SELECT json${also}, ${columns.from} FROM ${lines})) TO ${quoted(to)}
     (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${groupBlocks * blockRows})`,
  );
}

async function inSession(options: SessionOptions, statement: string): Promise<void> {
  const instance = await openSession(options);
  try {
    await withConnection(instance, (connection) => connection.run(statement));
  } finally {
    instance.closeSync();
  }
}

// Measured with DuckDB 1.5: a thread holds the text and the columns of a row group, and their compressed form.
const [baseMegabytes, perGroup] = [100, 4];

/** Two threads, unless the largest row group is too large for that. */
function memoryFor(largestMegabytes: number): Pick<SessionOptions, "memoryMegabytes" | "threads"> {
  const threads = largestMegabytes * 1e6 > 1.1 * maxGroupBytes ? 1 : Math.min(2, availableParallelism());
  const needed = baseMegabytes + threads * perGroup * largestMegabytes;
  return { memoryMegabytes: Math.ceil(Math.max(600, needed)), threads };
}

/** A power of two with which every row group stays within its limits. */
export function blocksPerGroup(blocks: readonly number[]): number {
  let size = maxBlocks;
  while (size > 1 && Math.max(0, ...groupsOf(blocks, size)) > maxGroupBytes) size /= 2;
  return size;
}

function groupsOf(blocks: readonly number[], size: number): number[] {
  return Array.from({ length: Math.ceil(blocks.length / size) }, (_, group) =>
    blocks.slice(group * size, (group + 1) * size).reduce((sum, bytes) => sum + bytes, 0),
  );
}

/**
 * Reads a Parquet file back. Its rows must be those of the pages, from the newest to the oldest: each page's root is
 * computed anew from the bytes of `json`, and `id` must be the one in it.
 */
export async function checkParquet(
  path: string,
  temporaryDirectory: string,
  pages: AsyncIterable<Page>,
): Promise<void> {
  const rows = readRows(path, temporaryDirectory);
  try {
    for await (const page of pages) {
      const leaves: Buffer[] = [];
      while (leaves.length < page.markets) {
        const { value, done } = await rows.next();
        if (done) throw new Fault("EXPORT_WRONG", "an exported file lacks rows");
        leaves.push(value);
      }
      if (pageRootOf(leaves.reverse()).toString("hex") !== page.root)
        throw new Fault("EXPORT_WRONG", "an exported file differs from the page it was made from");
    }
    if (!(await rows.next()).done) throw new Fault("EXPORT_WRONG", "an exported file has too many rows");
  } finally {
    await rows.return();
  }
}

/** The leaf hash of each `json`, in the file's order. */
export async function* readRows(
  path: string,
  temporaryDirectory: string,
): AsyncGenerator<Buffer, void, void> {
  const instance = await readerOf(path, temporaryDirectory);
  try {
    yield* rowsBy(instance, path);
  } finally {
    instance.closeSync();
  }
}

/** Opens a database that can read this file. */
export const readerOf = (path: string, temporaryDirectory: string): Promise<DuckDBInstance> =>
  openSession({ memoryMegabytes: 600, temporaryDirectory, threads: 1, ordered: true, allowedPaths: [path] });

/** As `readRows`, with a database that is already open. */
export async function* rowsBy(reader: DuckDBInstance, path: string): AsyncGenerator<Buffer, void, void> {
  const connection = await reader.connect();
  try {
    const result = await connection.stream(
      `SELECT id, encode(json) FROM read_parquet(${quoted(literalPath(path))})`,
    );
    for (;;) {
      const chunk = await result.fetchChunk();
      if (!chunk || chunk.rowCount === 0) return;
      const [ids, texts] = [chunk.getColumnVector(0), chunk.getColumnVector(1)];
      if (!(texts instanceof DuckDBBlobVector)) throw new Error("texts are not bytes");
      for (let row = 0; row < chunk.rowCount; row += 1) {
        const bytes = texts.getItemBytes(row);
        if (!bytes) throw new Fault("EXPORT_WRONG", "an exported file has a row without its text");
        const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
        if (ids.getItem(row) !== idOfLine(text))
          throw new Fault("EXPORT_WRONG", "an id is not that of its market");
        yield leafHash(text);
      }
      // Frees the text now. The garbage collector does not see how much memory a chunk holds.
      chunk.reset();
    }
  } finally {
    connection.closeSync();
  }
}
