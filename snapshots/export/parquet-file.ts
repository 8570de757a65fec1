import { open } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { DuckDBBlobVector, type DuckDBConnection } from "@duckdb/node-api";
import { Fault } from "../../schemas/errors.ts";
import type { ColumnStats } from "../../schemas/store/stored-objects.ts";
import { idOfLine } from "../format/market-line.ts";
import { type Page, readRun } from "../format/page.ts";
import { leafHash, pageRootOf } from "../format/tree.ts";
import { maxRecordBytes } from "../sources/contract/file-column.ts";
import { inSession, type SessionOptions } from "../sources/duckdb/duckdb.ts";
import { identifier, literalPath, quoted } from "../sources/duckdb/sql-literals.ts";
import { inOrder } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { exportedColumns, parsedMarket } from "./export-records.ts";

const [nothing, lineEnd] = [Buffer.alloc(0), Buffer.from("\n")];

/** One market a line, page by page. */
export async function writeTexts(path: string, storage: Storage, pages: AsyncIterable<Page>) {
  await using texts = await openTexts(path);
  const read = async (page: Page) => ({
    page,
    stored: await readObject(storage, layout.page(page.hash), page),
  });
  const bounds = { concurrency: 16, bytes: (page: Page) => page.bytes };
  for await (const { page, stored } of inOrder(pages, read, bounds)) {
    await texts.add(page.runs.flatMap((_, index) => readRun(layout.page(page.hash), stored, page, index)));
    if (pageRootOf(texts.leaves.slice(-page.markets).reverse()).toString("hex") !== page.root)
      throw new Fault("EXPORT_WRONG", "an exported file differs from the page it was made from");
  }
  return texts;
}

/**
 * Begins the file that `writeParquet` reads. `blocks` has the bytes of each block of rows, and `leaves` the leaf hash
 * of each row's text.
 */
export async function openTexts(path: string) {
  const file = await open(path, "w");
  const [blocks, leaves]: [number[], Buffer[]] = [[], []];
  return {
    blocks,
    leaves,
    async add(lines: readonly Buffer[], prefix = nothing): Promise<void> {
      for (const line of lines) {
        if (leaves.length % blockRows === 0) blocks.push(0);
        blocks[blocks.length - 1]! += line.length;
        leaves.push(leafHash(line));
      }
      await file.appendFile(Buffer.concat(lines.flatMap((line) => [prefix, line, lineEnd])));
    },
    close: () => file.close(),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

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
  const columns = exportedColumns.map(({ name, value }) => `${value} AS ${identifier(name)}`).join(", ");
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
  const copy =
    `COPY (SELECT ${columns}${also} FROM (SELECT json${also}, ${parsedMarket} FROM ${lines})) ` +
    `TO ${quoted(to)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${groupBlocks * blockRows})`;
  await inSession(options, (connection) => connection.run(copy));
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
 * Reads a Parquet file back: `leaves` has the leaf hash of each `json`, and `id` must be the one in it. `called` and
 * `source` are the file and what it was made from, for the error.
 */
export async function checkParquet(
  path: string,
  temporaryDirectory: string,
  leaves: readonly Buffer[],
  [called, source]: readonly [called: string, source: string],
): Promise<void> {
  let row = 0;
  await inSession(readerOptions(path, temporaryDirectory), async (connection) => {
    for await (const leaf of rowsBy(connection, path)) {
      if (!leaves[row]?.equals(leaf)) throw new Fault("EXPORT_WRONG", `${called} differs from ${source}`);
      row += 1;
    }
  });
  if (row !== leaves.length) throw new Fault("EXPORT_WRONG", `${called} lacks rows`);
}

/** For a session that can read this file alone. */
export const readerOptions = (path: string, temporaryDirectory: string): SessionOptions => ({
  memoryMegabytes: 600,
  temporaryDirectory,
  threads: 1,
  ordered: true,
  allowedPaths: [path],
});

/** The leaf hash of each `json`, in the file's order. */
export async function* rowsBy(
  connection: DuckDBConnection,
  path: string,
): AsyncGenerator<Buffer, void, void> {
  const result = await connection.stream(
    `SELECT id, encode(json) FROM read_parquet(${quoted(literalPath(path))})`,
  );
  for await (const chunk of result) {
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
}

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
  const query = `SELECT ${values} FROM read_parquet(${quoted(literalPath(path))})`;
  const answer = await inSession(readerOptions(path, temporaryDirectory), (connection) =>
    connection.runAndReadAll(query),
  );
  const [row = []] = answer.getRows();
  const stats: ColumnStats = { minValues: {}, maxValues: {}, nullCount: {} };
  for (const [index, { name, shape }] of ordered.entries()) {
    const [least, greatest, nulls] = row.slice(3 * index, 3 * index + 3);
    stats.nullCount[name] = Number(nulls);
    const [min, max] = [least, greatest].map((value) => statistic(value, shape.kind));
    if (min === undefined || max === undefined) continue;
    stats.minValues[name] = min;
    stats.maxValues[name] = max;
  }
  return stats;
}

/** Undefined where statistics leave the value out. */
function statistic(value: unknown, kind: string): string | number | undefined {
  if (value === null || value === undefined) return undefined;
  if (kind === "time") return new Date(Number(value)).toISOString();
  if (kind !== "text") return Number(value);
  return String(value).length <= maxCharacters ? String(value) : undefined;
}
