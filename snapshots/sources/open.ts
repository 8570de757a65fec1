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
import { countRows, type ListedSource, type OpenSource, refuseDuplicates, type UniqueKey } from "./source.ts";
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
  const root = resolve(directory);
  const latest = new Date(now.getTime() + clockToleranceMilliseconds);
  const [markets, scores] = await bothOf(
    () => listSource(root, marketsTable(latest)),
    () => listSource(root, protocolScoresTable(latest)),
  );
  // DuckDB gives its spill files fixed names: two processes in one folder would overwrite each other's.
  const spill = await mkdtemp(join(resolve(temporaryDirectory), "duckdb-"));
  const allowedPaths = [...markets.files, ...scores.files].map(({ path }) => path);
  const instance = await openSession({
    memoryLimit,
    temporaryDirectory: spill,
    threads,
    ordered: false,
    allowedPaths,
  });
  const close = async () => {
    instance.closeSync();
    await rm(spill, { recursive: true, force: true });
  };
  try {
    return { ...(await checkedSources(instance, markets, scores)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function checkedSources(
  instance: DuckDBInstance,
  marketsSource: ListedSource,
  scoresSource: ListedSource,
): Promise<Omit<Sources, "close">> {
  const [markets, scores] = await bothOf(
    () => checkSource(instance, marketsSource, uniqueMarket),
    () => checkSource(instance, scoresSource, uniqueScore),
  );
  return {
    marketCount: markets.rows,
    warnings: [...markets.warnings, ...scores.warnings],
    markets: () => readMarkets(markets.source),
    cutPoints: (parts) => readCutPoints(markets.source, markets.rows, parts),
    scores: () => readScores(scores.source),
  };
}

/** Runs the same step for both sources, one after the other, so that one refusal tells what is wrong with either. */
async function bothOf<T>(first: () => Promise<T>, second: () => Promise<T>): Promise<[T, T]> {
  const refusals = new RefusalList();
  const results = [await refusals.gather(first), await refusals.gather(second)];
  refusals.throwIfAny();
  return results as [T, T];
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

async function listSource(directory: string, table: SourceTable): Promise<ListedSource> {
  return { directory, table, files: await listSourceFiles(directory, table.name) };
}

async function checkSource(
  instance: DuckDBInstance,
  listed: ListedSource,
  key: UniqueKey,
): Promise<{ source: OpenSource; rows: number; warnings: string[] }> {
  const { table, files } = listed;
  const { groups, extra } = await withConnection(instance, (connection) =>
    groupFiles(connection, table, files),
  );
  const source = { ...listed, instance, groups };
  const rows = await countRows(source);
  if (rows === 0)
    throw new SourceRefusal([{ file: files.map(({ name }) => name).join(", "), rule: "has no rows" }]);
  await refuseDuplicates(source, key);
  const warnings =
    extra.length === 0 ? [] : [`${table.name}: ignored what the contract does not name: ${extra.join(", ")}`];
  return { source, rows, warnings };
}
