import { mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { DuckDBInstance } from "@duckdb/node-api";
import { openSession, withConnection } from "./duckdb.ts";
import { refuseDuplicates, type UniqueKey } from "./duplicate-keys.ts";
import { groupFiles } from "./file-groups.ts";
import { digestKind } from "./known-rows.ts";
import { readCutPoints, readMarkets } from "./markets.ts";
import { planMemory } from "./memory-plan.ts";
import { countRows, type ListedSource, type OpenSource } from "./read-source.ts";
import { RefusalList, SourceRefusal } from "./refusals.ts";
import { milliseconds } from "./render-json.ts";
import { readScores } from "./scores.ts";
import { listSourceFiles, type SourceDirectory, type SourceFile } from "./source-files.ts";
import { marketsTable, protocolScoresTable } from "./source-tables.ts";
import type { Sources } from "./sources.ts";
import type { SourceTable } from "./table-schema.ts";

/** How to read the sources. */
export interface SourcesOptions {
  /** The start of the run. Rows may be up to five minutes later. */
  now: Date;
  /** The address that the directory mirrors (mirror.ts), for messages. */
  mirrorOf?: string;
  /** A local folder for DuckDB's spill files. */
  temporaryDirectory: string;
  /** The memory limit of DuckDB's buffers, in millions of bytes; default 600. The process takes about 300 more. */
  memoryMegabytes?: number;
  /** The most threads to read with; fewer are used when row groups are large. Default: all cores. */
  threads?: number;
}

/** The clocks of the publisher and the scorer may differ by this much. */
const clockToleranceMilliseconds = 5 * 60_000;

/**
 * Opens the Parquet sources of a directory. Throws SourceRefusal when files or columns are missing or do not match the
 * contract, when a source has no rows, or when keys repeat. Values are checked later, while they are read.
 */
export async function openSources(directory: string, options: SourcesOptions): Promise<Sources> {
  const { now, mirrorOf, temporaryDirectory, memoryMegabytes: megabytes = 600, threads } = options;
  const root = { path: resolve(directory), mirrorOf };
  const latest = new Date(now.getTime() + clockToleranceMilliseconds);
  const listed = await bothOf([marketsTable(latest), protocolScoresTable(latest)], (table) =>
    listSource(root, table),
  );
  // DuckDB's spill files have fixed names, so two processes in one folder would overwrite each other's.
  const spill = await mkdtemp(join(resolve(temporaryDirectory), "duckdb-"));
  const instance = await openSession({
    memoryMegabytes: megabytes,
    temporaryDirectory: spill,
    ordered: false,
    allowedPaths: listed.flatMap(({ files }) => files.map(({ path }) => path)),
  });
  const close = async () => {
    instance.closeSync();
    await rm(spill, { recursive: true, force: true });
  };
  try {
    return { ...(await checkedSources(instance, listed, { megabytes, threads })), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function checkedSources(
  instance: DuckDBInstance,
  listed: readonly [ListedSource, ListedSource],
  limits: { megabytes: number; threads: number | undefined },
): Promise<Omit<Sources, "close">> {
  const grouped = await bothOf(listed, (source) => groupSource(instance, source));
  const memoryWarnings = await limitMemory(
    instance,
    listed.flatMap(({ files }) => files),
    limits,
  );
  const [markets, scores] = grouped;
  const [marketCount] = await bothOf(
    [
      { source: markets, key: uniqueMarket },
      { source: scores, key: uniqueScore },
    ],
    ({ source, key }) => checkRows(source, key),
  );
  return {
    marketCount,
    warnings: [...grouped.flatMap(extraWarning), ...memoryWarnings],
    markets: (known) => readMarkets(markets, known),
    rowDigests: await withConnection(instance, digestKind),
    cutPoints: (parts) => readCutPoints(markets, marketCount, parts),
    scores: () => readScores(scores),
  };
}

/** Runs the same step for both sources, one after the other, and throws one SourceRefusal for the faults of both. */
async function bothOf<From, To>(
  [first, second]: readonly [From, From],
  step: (from: From) => Promise<To>,
): Promise<[To, To]> {
  const refusals = new RefusalList();
  const results = [await refusals.gather(() => step(first)), await refusals.gather(() => step(second))];
  refusals.throwIfAny();
  return results as [To, To];
}

async function listSource(directory: SourceDirectory, table: SourceTable): Promise<ListedSource> {
  return { directory, table, files: await listSourceFiles(directory, table.name) };
}

async function groupSource(instance: DuckDBInstance, listed: ListedSource): Promise<OpenSource> {
  const grouped = await withConnection(instance, (connection) =>
    groupFiles(connection, listed.table, listed.files),
  );
  return { ...listed, ...grouped, instance };
}

function limitMemory(
  instance: DuckDBInstance,
  files: readonly SourceFile[],
  limits: { megabytes: number; threads: number | undefined },
): Promise<readonly string[]> {
  return withConnection(instance, async (connection) => {
    const { megabytes, threads, warnings } = await planMemory(connection, files, limits);
    await connection.run(`SET GLOBAL memory_limit = '${megabytes}MB'`);
    await connection.run(`SET GLOBAL threads = ${threads}`);
    return warnings;
  });
}

/** The number of rows in a source. Throws SourceRefusal when there are none, or when two share a key. */
async function checkRows(source: OpenSource, key: UniqueKey): Promise<number> {
  const { files, table } = source;
  const rows = await countRows(source);
  if (rows === 0) {
    const file = files.length === 1 ? files[0]!.name : `${table.name}/`;
    throw new SourceRefusal([{ file, rule: "has no rows" }]);
  }
  await refuseDuplicates(source, key);
  return rows;
}

// The cast accepts spellings that are refused later. It turns 36 bytes into 16, so that more keys fit into memory.
const uniqueMarket: UniqueKey = {
  key: "TRY_CAST(id AS UUID)",
  column: "id",
  rule: "must not be the id of two markets",
};

const uniqueScore: UniqueKey = {
  key: `concat(slug, ' at ', make_timestamp_ms(${milliseconds("updated_at")}))`,
  column: "updated_at",
  rule: "must not be the time of two scores of one protocol, in milliseconds",
};

function extraWarning({ table, extra }: OpenSource): string[] {
  if (extra.length === 0) return [];
  return [`${table.name}: ignored columns and members that the contract does not name: ${extra.join(", ")}`];
}
