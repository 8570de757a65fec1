import {
  DuckDBBlobVector,
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBVector,
  INTEGER,
  UBIGINT,
} from "@duckdb/node-api";
import { booleanNames, type FilterField, type FilterValues, filterFields } from "../../../schemas/filters.ts";
import { type Members, type Shape, sourceName } from "../../../schemas/shapes.ts";
import { idOfLine, type MarketKey } from "../../format/market-line.ts";
import { sha256 } from "../../store/layout.ts";
import { boundedRow, jsonOfRow, maxRecordBytes, soundRow } from "../contract/file-column.ts";
import {
  hasControls,
  marketsTable,
  milliseconds,
  rulesOf,
  type SourceTable,
} from "../contract/source-tables.ts";
import type { FileGroup } from "../files/file-groups.ts";
import type { FiledKey, FileNumbers, KeyRange, KnownRows, RenderedMarket } from "../sources.ts";
import { readParquet, scalar, selectFromAll, withConnection } from "./duckdb.ts";
import { causeOf, type OpenSource, readSource, refuseChangedFiles, refuseRows } from "./read-source.ts";
import { identifier, quoted, textList } from "./sql-literals.ts";

/**
 * Implements Sources.markets. Rows are not sorted, because DuckDB sorts nested rows only in memory and would need far
 * too much.
 */
export async function* readMarkets(
  source: OpenSource,
  knownRows: KnownRows | undefined,
  range: KeyRange | undefined,
): AsyncGenerator<RenderedMarket[]> {
  const read: Reading = { oneStream: knownRows !== undefined, where: range ? withinRange(range) : "true" };
  try {
    if (knownRows && source.groups.length > 0) {
      const load = (session: DuckDBConnection) => loadKnownRows(session, knownRows.digests);
      // Where only files are new, no row is known, and a table of all new rows would take memory for nothing.
      if ((await withConnection(source.instance, load)) > 0) read.kept = knownRows.kept;
    }
    for (const group of source.groups.flatMap(numberable)) yield* readGroup(source, group, read);
    await refuseChangedFiles(source);
  } catch (error) {
    throw await causeOf(source, error);
  }
}

/**
 * DuckDB numbers the files of a query in a column, which a file's own column of that name hides. Such files are read
 * one by one.
 */
function numberable(group: FileGroup): FileGroup[] {
  return group.columns.has("file_index") ? group.files.map((file) => ({ ...group, files: [file] })) : [group];
}

interface Reading {
  /** Takes the files of known rows. Without it no row is compared with any. */
  kept?: FileNumbers;
  /** Whether one stream reads all files: where a snapshot has rows already, few are left to stream. */
  oneStream: boolean;
  /** SQL for the rows to read. */
  where: string;
}

async function* readGroup(
  source: OpenSource,
  group: FileGroup,
  read: Reading,
): AsyncGenerator<RenderedMarket[]> {
  // DuckDB produces a stream on one thread, so several are read at once.
  const allowed = (connection: DuckDBConnection) => scalar(connection, "SELECT current_setting('threads')");
  const streams = read.oneStream ? 1 : await withConnection(source.instance, allowed);
  const parts = Array.from({ length: Math.min(streams, group.files.length) }, (_, part) => ({
    ...group,
    files: group.files.filter((_, file) => file % streams === part),
  }));
  yield* inTurn(parts.map((part) => readPart(source, part, read)));
}

async function* inTurn<T>(generators: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const open = new Set(generators);
  try {
    while (open.size > 0) {
      for (const generator of open) {
        const { done, value } = await generator.next();
        if (done) open.delete(generator);
        else yield value;
      }
    }
  } finally {
    for (const generator of open) await generator.return(undefined);
  }
}

async function* readPart(
  source: OpenSource,
  group: FileGroup,
  { kept, where }: Reading,
): AsyncGenerator<RenderedMarket[]> {
  const connection = await source.instance.connect();
  let next: Promise<DuckDBDataChunk | null> | undefined;
  try {
    // Room for about two chunks. Their text does not count here: that of 2,048 markets is 7 MB.
    await connection.run("SET streaming_buffer_size = '500KB'");
    // Swapping the sides of the join would hash all markets to find few known rows, which takes all of the memory.
    await connection.run("SET disabled_optimizers = 'join_order,build_side_probe_side'");
    const file = fileNumber(source, group);
    let query = marketsQuery(group, file, where);
    if (kept) {
      // Writing the few remaining rows to a table first lets all threads work.
      await connection.run(`CREATE OR REPLACE TEMP TABLE compared AS ${comparedQuery(group, file, where)}`);
      await markKept(connection, kept);
      query = "SELECT * EXCLUDE (ordinal) FROM compared WHERE ordinal IS NULL";
    }
    const result = await connection.stream(query);
    next = result.fetchChunk();
    for (;;) {
      const chunk = await next;
      if (!chunk || chunk.rowCount === 0) return;
      // DuckDB prepares the next chunk while the caller is busy with this one.
      next = result.fetchChunk();
      const columns = Array.from({ length: chunk.columnCount }, (_, column) => chunk.getColumnVector(column));
      for (let first = 0; first < chunk.rowCount; first += batchRows) {
        const length = Math.min(batchRows, chunk.rowCount - first);
        const batch = rowsOf(columns.map((column) => column.slice(first, length)));
        if (!batch) return await refuseRows(source);
        yield batch;
      }
      // Frees about 7 MB of text now. The garbage collector does not see how much memory a chunk holds.
      chunk.reset();
    }
  } finally {
    // A connection must not be closed during a fetch.
    await next?.catch(() => undefined);
    connection.closeSync();
  }
}

async function markKept(connection: DuckDBConnection, kept: FileNumbers): Promise<void> {
  const result = await connection.stream("SELECT ordinal, file FROM compared WHERE ordinal IS NOT NULL");
  for await (const chunk of result) {
    const [ordinals, files] = [chunk.getColumnVector(0), chunk.getColumnVector(1)];
    for (let row = 0; row < chunk.rowCount; row += 1)
      kept[ordinals.getItem(row) as number] = files.getItem(row) as number;
  }
}

/** SQL for the number of a row's file, counted from 1 among all files of the source. */
function fileNumber({ files }: OpenSource, group: FileGroup): string {
  const positions = new Map(files.map((file, index) => [file, index]));
  const numbers = group.files.map((file) => positions.get(file)! + 1);
  return numbers.length === 1 ? `${numbers[0]}` : `[${numbers.join(", ")}][file_index::BIGINT + 1]`;
}

/** SQL for the rules that need more than the record; rowsOf checks the others. */
const soundBefore = ({ fields, rowRules }: FileGroup) =>
  soundRow(fields, rowRules, ({ inRecord = false }) => !inRecord);

const columnsOf = (group: FileGroup) => group.fields.map(({ name }) => identifier(name));

function marketsQuery(group: FileGroup, file: string, where: string): string {
  const sound = soundBefore(group);
  const values = [...columnsOf(group), `${sound} AS sound`, `(${file})::INTEGER AS file`];
  // The rules include those that bound the row, so each is evaluated once.
  return `SELECT ${selectedColumns(group, "sound").join(", ")} FROM (SELECT *, ${rowDigest(group, "sound")} AS digest
    FROM (SELECT ${values.join(", ")} FROM ${readParquet(group)} WHERE ${where}))`;
}

/** SELECT of the same columns for rows that are not known, preceded by the ordinal of those that are. */
function comparedQuery(group: FileGroup, file: string, where: string): string {
  // A CASE evaluates a branch only for the rows that take it, so known rows cost nothing but their digest.
  const sound = soundBefore(group);
  const [number, ...others] = selectedColumns(group, sound);
  const columns = others.map((value) => `CASE WHEN ordinal IS NULL THEN ${value} END`);
  const values = [...columnsOf(group), `${rowDigest(group)} AS digest`, `(${file})::INTEGER AS file`];
  return `SELECT ordinal, ${number}, ${columns.join(", ")}
    FROM (SELECT ${values.join(", ")} FROM ${readParquet(group)} WHERE ${where})
    LEFT JOIN known USING (digest)`;
}

function filterValue(row: FilterField): string {
  if (row.member === "dimensions")
    return `list_transform(dimensions, lambda dimension: dimension.score)
      [list_position(list_transform(dimensions, lambda dimension: dimension.key), '${row.field}')]`;
  const column = sourceName(row.member);
  const named = row.kind === "integer" && row.values !== booleanNames ? row.values : undefined;
  return named ? `list_position(${textList(named)}, ${column})` : column;
}

/**
 * Columns as rowsOf takes them: four of their own, then the filter table's. The record is null when the row breaks a
 * rule.
 */
function selectedColumns({ fields }: FileGroup, sound: string): string[] {
  const record = `CASE WHEN ${sound} THEN encode(${jsonOfRow(fields)}) END`;
  const values = filterFields.map((row) =>
    row.kind === "label" ? filterValue(row) : `TRY_CAST(${filterValue(row)} AS INTEGER)`,
  );
  return ["file", "digest", `${milliseconds("resolved_at")}::DOUBLE`, record, ...values];
}

/**
 * `columns` are vectors of equal length, one for each of selectedColumns. Undefined when one of the rows breaks a rule.
 */
function rowsOf(columns: readonly DuckDBVector[]): RenderedMarket[] | undefined {
  const [files, digests, times, records, ...valueColumns] = columns;
  if (!(records instanceof DuckDBBlobVector)) throw new Error("records are not bytes");
  const rows: RenderedMarket[] = [];
  for (let row = 0; row < records.itemCount; row += 1) {
    const bytes = records.getItemBytes(row);
    if (bytes === null || bytes.byteLength > maxRecordBytes) return undefined;
    const line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (hasControls(line)) return undefined;
    const values: Record<string, unknown> = {};
    for (const [position, { field }] of filterFields.entries())
      values[field] = valueColumns[position]!.getItem(row);
    rows.push({
      id: idOfLine(line),
      resolvedAt: times!.getItem(row) as number,
      digest: digests!.getItem(row) as bigint,
      file: files!.getItem(row) as number,
      line,
      values: values as FilterValues,
    });
  }
  return rows;
}

/** Markets in a batch. Small batches let their text become garbage soon. */
const batchRows = 256;

/** About how many keys are sampled for cut points. */
const sampledKeys = 50_000;

/**
 * Implements Sources.cutPoints. Markets are sampled by the hash of their id, so the same sources give the same cut
 * points.
 */
export async function readCutPoints(
  source: OpenSource,
  markets: number,
  parts: number,
): Promise<MarketKey[]> {
  if (source.groups.length === 0) return [];
  const keys = await readSource(source, async (connection) => {
    const sampled = `hash(id) % ${Math.max(1, Math.floor(markets / sampledKeys))} = 0`;
    const query = selectFromAll(
      source.groups,
      `${milliseconds("resolved_at")}::DOUBLE AS time, id`,
      `${sampled} AND id IS NOT NULL AND isfinite(resolved_at)`,
    );
    const result = await connection.runAndReadAll(`${query} ORDER BY time, id`);
    return result.getRows().map(([time, id]) => ({ resolvedAt: time as number, id: id as string }));
  });
  const wanted = Math.min(parts, keys.length);
  return Array.from({ length: Math.max(0, wanted - 1) }, (_, part) => {
    return keys[Math.floor(((part + 1) * keys.length) / wanted)]!;
  });
}

/**
 * SQL that holds for the rows of a range, and for no sound row outside of it. Times are truncated to milliseconds, as
 * in keys. The conditions on time alone let DuckDB skip row groups.
 */
function withinRange({ from, before }: KeyRange): string {
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

/** Implements Sources.keys. DuckDB sorts, and spills what its memory does not hold. */
export async function* readKeys(source: OpenSource): AsyncGenerator<FiledKey[]> {
  const selects = source.groups.flatMap(numberable).map((group) => {
    const key = group.fields.filter(({ name }) => name === "id" || name === "resolved_at");
    return `SELECT ${milliseconds("resolved_at")}::DOUBLE AS time, id, (${fileNumber(source, group)})::INTEGER AS file
         FROM ${readParquet(group)} WHERE ${soundRow(key, [])}`;
  });
  if (selects.length === 0) return;
  const connection = await source.instance.connect();
  try {
    const result = await connection.stream(`${selects.join(" UNION ALL ")} ORDER BY time, id`);
    for await (const chunk of result) {
      const [times, ids, files] = [0, 1, 2].map((column) => chunk.getColumnVector(column));
      yield Array.from({ length: chunk.rowCount }, (_, row) => ({
        resolvedAt: times!.getItem(row) as number,
        id: ids!.getItem(row) as string,
        file: files!.getItem(row) as number,
      }));
    }
    await refuseChangedFiles(source);
  } catch (error) {
    throw await causeOf(source, error);
  } finally {
    connection.closeSync();
  }
}

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

/** Covers columns with their published names and order, and their rules. Another spelling is another digest. */
export function contractDigest({ name, label, members, latest, rowRules }: SourceTable): string {
  const columnsOf = (members: Members): object[] =>
    Object.entries(members).map(([published, shape]) => {
      const name = sourceName(published);
      return { name, ...(name !== published && { published }), shape: spelled(shape) };
    });
  const spelled = (shape: Shape): object => {
    const { kind } = shape;
    if (kind === "list") return { kind, of: spelled(shape.of) };
    if (kind === "struct") return { kind, fields: columnsOf(shape.members) };
    if (kind === "integer") return { kind, min: shape.min, max: shape.max };
    return { kind, ...(kind !== "boolean" && kind !== "any" && { rules: rulesOf(shape, latest) }) };
  };
  const table = { name, label, fields: columnsOf(members), rowRules };
  const text = JSON.stringify(table, (_, value) => (typeof value === "function" ? value("value") : value));
  return sha256(text).slice(0, 16);
}

/**
 * SQL for the digest of a market row that keeps the rules `sound`, and null for others: their text could take all
 * memory. DuckDB's hash does not see where nested lists end: it is the same for ["a"], [] as for [], ["a"]. So the text
 * of the inner lists is hashed too. So are the columns' signature, because names of struct members do not count either,
 * and the signs of numbers, because 0.0 and -0.0 differ in JSON.
 */
export function rowDigest({ fields, signature }: FileGroup, sound = boundedRow(fields)): string {
  const lists = `to_json(list_transform(dimensions, lambda dimension: {
    evidence: len(dimension.evidence), "references": dimension."references",
    signs: [signbit(dimension.weight), signbit(dimension.computation.baseline)],
    raises: dimension.computation.raises, lowers: dimension.computation.lowers}))::VARCHAR`;
  const hashed = [quoted(signature), ...fields.map(({ name }) => identifier(name)), lists];
  return `CASE WHEN ${sound} THEN hash(${hashed.join(", ")}) END`;
}

/** Fills the session's table `known` (digest, ordinal), and returns its number of rows. */
async function loadKnownRows(connection: DuckDBConnection, batches: KnownRows["digests"]): Promise<number> {
  await connection.run("CREATE OR REPLACE TABLE known (digest UBIGINT, ordinal INTEGER)");
  const appender = await connection.createAppender("known");
  try {
    for await (const { start, digests } of batches) {
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
  return scalar(connection, "SELECT count(*) FROM known");
}
