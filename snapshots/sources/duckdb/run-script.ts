import { isUtf8 } from "node:buffer";
import { statSync } from "node:fs";
import { mkdtemp, readFile, realpath, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from "@duckdb/node-api";
import { ifPresent, messageOf } from "../../store/errors.ts";
import {
  marketsTable,
  protocolScoresTable,
  type SourceTable,
  sourceNames,
} from "../contract/source-tables.ts";
import { type FileGroup, matchRows } from "../files/file-groups.ts";
import { tableOfScript } from "../files/source-files.ts";
import { type Refusal, RefusalList, SourceRefusal } from "../sources.ts";
import { columnsOf, faultOf, inSession, isOutOfMemory } from "./duckdb.ts";
import { culpritOf, diagnose } from "./read-source.ts";
import { identifier, quoted } from "./sql-literals.ts";

export interface ScriptOptions {
  /** A local folder for spill files, and for the tables that the script leaves. */
  temporaryDirectory: string;
  /** The memory limit of DuckDB's buffers, in millions of bytes; default 600. The script may set another. */
  memoryMegabytes?: number;
  /** Called with what the script's SELECT statements return: a line for each of the first rows. */
  tell?: (line: string) => void;
}

const maxTold = 100;

/** The tables that a script left: a folder with a Parquet file of each, and how many rows each has. */
export type ScriptTables = { directory: string } & Record<SourceTable["name"], number>;

export function isScript(path: string): boolean {
  return /\.sql$/i.test(path);
}

/**
 * Runs a DuckDB script in the process's current folder; it may do all that its user may. Writes the tables or views
 * `markets` and `protocol_scores` that it leaves to Parquet files, so that a publish reads the same rows as often as it
 * needs to. Throws SourceRefusal when a statement fails, when a table is missing or cannot be read, and when columns do
 * not match the contract: files cannot hold every type.
 */
export async function runScript(path: string, options: ScriptOptions): Promise<ScriptTables> {
  const script = basename(path);
  const text = await textOf(path);
  const { temporaryDirectory, memoryMegabytes, tell = () => {} } = options;
  const directory = await realpath(await mkdtemp(join(temporaryDirectory, "script-")));
  const spill = join(directory, "spill");
  const session = {
    memoryMegabytes,
    temporaryDirectory: spill,
    // Refusals name rows by their numbers in the table that the script left.
    ordered: true,
    allowedPaths: sourceNames.map((name) => fileOf(directory, name)),
    trusted: true,
  };
  try {
    return await inSession(session, async (connection) => {
      await runStatements(connection, script, text, tell);
      return { directory, ...(await writeTables(connection, script, directory)) };
    });
  } finally {
    await rm(spill, { recursive: true, force: true });
  }
}

/** Without a byte order mark. */
async function textOf(path: string): Promise<string> {
  const refuse = (rule: string) => new SourceRefusal([{ file: path, rule }]);
  const info = await ifPresent(stat(path));
  if (!info) throw refuse("is missing");
  // Opening a pipe would wait for a writer, possibly for ever.
  if (!info.isFile()) throw refuse("is not a regular file; a folder of Parquet files must not end in .sql");
  const bytes = await readFile(path);
  if (!isUtf8(bytes)) throw refuse("is not valid UTF-8");
  return new TextDecoder().decode(bytes);
}

const fileOf = (directory: string, name: string) => join(directory, `${name}.parquet`);

async function runStatements(
  connection: DuckDBConnection,
  script: string,
  text: string,
  tell: (line: string) => void,
): Promise<void> {
  const refuse = (error: unknown, row?: string) => {
    const rule = [`fails: ${gist(error)}`, ...(row ? hintsFor(error, text) : [])].join("; ");
    return new SourceRefusal([{ file: script, ...(row && { row }), rule }]);
  };
  // DuckDB has no message for a script without statements.
  const statements = await connection.extractStatements(text).catch((error: unknown) => {
    if (messageOf(error) === "Error in native callback")
      throw new SourceRefusal([{ file: script, rule: "has no statement" }]);
    const line = /\nLINE (\d+):/.exec(messageOf(error))?.[1];
    throw refuse(error, line && `line ${line}`);
  });
  for (let index = 0; index < statements.count; index += 1) {
    try {
      const statement = await statements.prepare(index);
      if (statement.statementType === StatementType.SELECT) await tellRows(statement, script, tell);
      else await statement.run();
      statement.destroySync();
    } catch (error) {
      throw refuse(error, `statement ${index + 1} of ${statements.count}`);
    }
  }
}

/** What DuckDB's message leaves unsaid about the files that the script names. */
function hintsFor(error: unknown, text: string): string[] {
  if (/No files found that match/.test(messageOf(error)))
    return [`relative names begin at ${process.cwd()}, the folder where you stand`];
  const named = new Set([...text.matchAll(/'([^'\n]+)'/g)].map(([, name]) => name!));
  const empty = [...named].filter((name) => {
    const info = statSync(name, { throwIfNoEntry: false });
    return info?.isFile() && info.size === 0;
  });
  return empty.map((name) => `${name} is empty`);
}

/**
 * Runs a SELECT to its end, since a later row may be an error, and shows its first rows. A row of nulls says nothing.
 */
async function tellRows(
  statement: DuckDBPreparedStatement,
  script: string,
  tell: (line: string) => void,
): Promise<void> {
  let count = 0;
  for await (const rows of (await statement.stream()).yieldRows()) {
    const texts = rows
      .slice(0, Math.max(maxTold - count, 0))
      .map((row) => row.filter((value) => value !== null));
    for (const text of texts) if (text.length > 0) tell(`${script}: ${onOneLine(text.join(" "))}`);
    count += rows.length;
  }
  if (count > maxTold) tell(`${script}: and ${count - maxTold} more rows of this SELECT`);
}

async function writeTables(
  connection: DuckDBConnection,
  script: string,
  directory: string,
): Promise<Record<SourceTable["name"], number>> {
  const refusals = new RefusalList();
  const tables: LeftTable[] = [];
  for (const table of [marketsTable(undefined), protocolScoresTable(undefined)]) {
    const checked = await refusals.gather(() => checkedTable(connection, script, table));
    if (checked) tables.push(checked);
  }
  refusals.throwIfAny();
  // In one transaction an attached database shows both tables as they were at the same moment.
  await connection.run("BEGIN TRANSACTION").catch(() => {
    throw new SourceRefusal([{ file: script, rule: "leaves a transaction open; end it with COMMIT" }]);
  });
  const rows = { markets: 0, protocol_scores: 0 };
  for (const each of tables) {
    const { name } = each.table;
    try {
      const result = await connection.runAndReadAll(
        `COPY (${each.query}) TO ${quoted(fileOf(directory, name))}
         (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 10240, USE_TMP_FILE false)`,
      );
      rows[name] = Number(result.getRows()[0]?.[0]);
    } catch (error) {
      if (isOutOfMemory(error)) await refuseLongRows(connection, script, each);
      throw unreadable(script, name, error);
    }
  }
  await connection.run("COMMIT");
  return rows;
}

/** A table that a script left. `query` is SQL for its rows. */
interface LeftTable extends Pick<FileGroup, "fields" | "rowRules"> {
  table: SourceTable;
  query: string;
}

/**
 * Throws SourceRefusal naming the rows that break a rule, if there are any. Writing a text of hundreds of megabytes
 * takes all memory; looking at it does not.
 */
async function refuseLongRows(
  connection: DuckDBConnection,
  script: string,
  { table, query, fields, rowRules }: LeftTable,
): Promise<void> {
  await connection.run("ROLLBACK");
  const refusals = new RefusalList();
  const rows = {
    fields,
    rowRules,
    rows: `(SELECT row_number() OVER () - 1 AS "row of script", * FROM (${query}))`,
    row: '"row of script"',
    file: tableOfScript(script, table.name),
  };
  await diagnose(connection, table, rows, refusals);
  refusals.throwIfAny();
}

async function checkedTable(
  connection: DuckDBConnection,
  script: string,
  table: SourceTable,
): Promise<LeftTable> {
  const { name, label } = table;
  const described = await connection.runAndReadAll(`DESCRIBE FROM ${name}`).catch((error: unknown) => {
    if (messageOf(error).startsWith(`Catalog Error: Table with name ${name} does not exist`))
      throw new SourceRefusal([{ file: script, rule: `leaves no table or view named ${name}` }]);
    throw unreadable(script, name, error);
  });
  const wide = described.getRows().flatMap(([column, type]) => {
    const narrow = withoutWideIntegers(String(type));
    const value = identifier(String(column));
    return narrow === type ? [] : [`${value}::${narrow} AS ${value}`];
  });
  const query = `SELECT *${wide.length > 0 ? ` REPLACE (${wide.join(", ")})` : ""} FROM ${name}`;
  const result = await connection.run(`${query} LIMIT 0`);
  const { faults, ...sound } = await matchRows(connection, table, columnsOf(result), `(${query})`);
  if (faults.length === 0) return { table, query, ...sound };
  const file = tableOfScript(script, name);
  // The columns of a file with nothing but its header are all text.
  if ((await connection.runAndReadAll(`FROM ${name} LIMIT 1`).catch(() => undefined))?.currentRowCount === 0)
    throw new SourceRefusal([{ file, rule: "has no rows" }]);
  const refusals: Refusal[] = [];
  for (const fault of faults) {
    const { row, value } = (await culpritOf(connection, name, label, fault)) ?? {};
    const details =
      row === undefined ? fault : { ...fault, row, value: `${JSON.stringify(value)}, ${fault.value}` };
    refusals.push({ file, ...details });
  }
  throw new SourceRefusal(refusals);
}

/**
 * Replaces integers of 128 bits with BIGINT. DuckDB makes them of sums and of JSON, but writes them to Parquet as
 * DOUBLE. The cast fails for numbers that do not fit.
 */
function withoutWideIntegers(type: string): string {
  return type.replace(/"(?:[^"]|"")*"|\bU?HUGEINT\b/g, (part) => (part.startsWith('"') ? part : "BIGINT"));
}

function unreadable(script: string, table: string, error: unknown): SourceRefusal {
  return new SourceRefusal([{ file: tableOfScript(script, table), rule: `cannot be read: ${gist(error)}` }]);
}

/** The first paragraph of DuckDB's message. A script that lacks memory is itself at fault: it can raise the limit. */
function gist(error: unknown): string {
  const message = isOutOfMemory(error)
    ? messageOf(error).replace(/\n\n.*/s, "; SET memory_limit = '4GB' in the script gives it more")
    : faultOf(error);
  const [paragraph = ""] = message.replace(/^Failed to extract statements: /, "").split("\n\n");
  return onOneLine(paragraph);
}

/**
 * Also removes passwords, which stand in addresses of databases. Where a password's end is not certain, what follows it
 * is removed too.
 */
function onOneLine(text: string): string {
  return text
    .replace(/\s+/g, " ")
    .trim()
    .replace(/(:\/\/[^\s:@/]*):\S*@/g, "$1:***@")
    .replace(/((?:password|passwd|secret|token|signature)\s*=\s*)('(?:\\.|''|[^'\\])*'|\S+)/gi, "$1***")
    .slice(0, 1000);
}
