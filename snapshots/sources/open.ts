import { mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { DuckDBInstance } from "@duckdb/node-api";
import { openSession, withConnection } from "../duckdb.ts";
import { listSourceFiles } from "./files.ts";
import { groupFiles } from "./groups.ts";
import { readCutPoints, readMarkets } from "./markets.ts";
import { RefusalList } from "./refusals.ts";
import { milliseconds } from "./render.ts";
import { readScores } from "./scores.ts";
import type { SourceTable } from "./shape.ts";
import { countRows, type OpenSource, refuseDuplicates, type UniqueKey } from "./source.ts";
import { SourceRefusal, type Sources } from "./sources.ts";
import { marketsTable, protocolScoresTable } from "./tables.ts";

/** How to read sources. */
export interface SourcesOptions {
  /** The start of the run: rows may be up to five minutes later. */
  now: Date;
  /** A local folder to spill to. */
  temporaryDirectory: string;
  /** DuckDB's buffer memory; default `300MB`. */
  memoryLimit?: string;
  /** Default: all cores. */
  threads?: number;
}

/** Clocks of publisher and scorer may differ by this much. */
const clockToleranceMilliseconds = 5 * 60_000;

/**
 * Opens the Parquet sources of a directory. Throws SourceRefusal when files or columns are missing, or are not as the
 * contract has them, when a source has no rows, or when keys repeat; values are checked while they are read.
 */
export async function openSources(directory: string, options: SourcesOptions): Promise<Sources> {
  const { now, temporaryDirectory, memoryLimit = "300MB", threads } = options;
  // DuckDB gives its spill files fixed names: two processes in one folder would overwrite each other's.
  const spill = await mkdtemp(join(resolve(temporaryDirectory), "duckdb-"));
  const root = resolve(directory);
  const instance = await openSession({
    memoryLimit,
    temporaryDirectory: spill,
    threads,
    allowedDirectories: [root],
  });
  const close = async () => {
    instance.closeSync();
    await rm(spill, { recursive: true, force: true });
  };
  try {
    return { ...(await openAll(instance, root, now)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openAll(
  instance: DuckDBInstance,
  directory: string,
  now: Date,
): Promise<Omit<Sources, "close">> {
  const latest = new Date(now.getTime() + clockToleranceMilliseconds);
  const refusals = new RefusalList();
  const open = (table: SourceTable, key: UniqueKey) =>
    refusals.gather(() => openSource(instance, directory, table, key));
  const markets = await open(marketsTable(latest), uniqueMarket);
  const scores = await open(protocolScoresTable(latest), uniqueScore);
  refusals.throwIfAny();
  if (!markets || !scores) throw new Error("a source is refused for no reason");
  return {
    marketCount: markets.rows,
    warnings: [...markets.warnings, ...scores.warnings],
    markets: () => readMarkets(markets.source),
    cutPoints: (parts) => readCutPoints(markets.source, markets.rows, parts),
    scores: () => readScores(scores.source),
  };
}

// The cast takes spellings that are refused later; it makes 16 bytes of 36, so that more fit into memory.
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

async function openSource(
  instance: DuckDBInstance,
  directory: string,
  table: SourceTable,
  key: UniqueKey,
): Promise<{ source: OpenSource; rows: number; warnings: string[] }> {
  const files = await listSourceFiles(directory, table.name);
  const { groups, extra } = await withConnection(instance, (connection) =>
    groupFiles(connection, table, files),
  );
  const source = { instance, directory, table, files, groups };
  const rows = await countRows(source);
  if (rows === 0)
    throw new SourceRefusal([{ file: files.map(({ name }) => name).join(", "), rule: "has no rows" }]);
  await refuseDuplicates(source, key);
  const warnings =
    extra.length === 0 ? [] : [`${table.name}: ignored what the contract does not name: ${extra.join(", ")}`];
  return { source, rows, warnings };
}
