import { mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { openSession, withConnection } from "../sources/duckdb/duckdb.ts";
import { quoted } from "../sources/duckdb/sql-literals.ts";
import { marketsQuery } from "./markets.ts";
import { protocolScoresQuery } from "./protocols.ts";
import { randomMacros } from "./sql.ts";

/** Equal options give equal rows, whatever the machine's time zone, clock or number of cores. */
export interface SampleOptions {
  /** The directory of the sources. An earlier sample in it is replaced. */
  directory: string;
  markets: number;
  protocols: number;
  /** Scoring runs per protocol, one per day. */
  days: number;
  outcomes: number;
  seed: number;
  /** Leaves out this many last days, fewer than `days`: the sources as they were then. Default: 0. */
  daysBack?: number;
  /** Default: all cores. */
  threads?: number;
  /** Limits DuckDB's memory: it keeps data of every row group until a file is finished. Default: 50,000. */
  marketsPerFile?: number;
}

/** What `npm run sample` makes by default. */
export const sampleDefaults = { markets: 20_000, protocols: 100, days: 30, outcomes: 800, seed: 1 } as const;

export interface SampleReport {
  directory: string;
  markets: number;
  protocols: number;
  /** Protocols times days. */
  scores: number;
  files: number;
  bytes: number;
}

/** Writes Parquet sources: `markets/part-00000.parquet` and following, and `protocol_scores.parquet`. */
export async function writeSample(options: SampleOptions): Promise<SampleReport> {
  const { directory, markets, protocols, days, outcomes, seed, threads } = options;
  const { marketsPerFile = 50_000, daysBack = 0 } = options;
  const marketsDirectory = join(directory, "markets");
  await rm(marketsDirectory, { recursive: true, force: true });
  await mkdir(marketsDirectory, { recursive: true });
  const instance = await openSession({
    memoryMegabytes: 400,
    temporaryDirectory: join(directory, ".duckdb"),
    threads,
    ordered: true,
  });
  try {
    const files = await withConnection(instance, async (connection) => {
      const written: { path: string; rows: number }[] = [];
      const copy = async (query: string, path: string) => {
        const { rowsChanged } = await connection.run(
          `COPY (${query}) TO ${quoted(path)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 10240)`,
        );
        written.push({ path, rows: rowsChanged });
      };
      for (const macro of randomMacros(seed)) await connection.run(macro);
      for (let first = 0; first < markets; first += marketsPerFile) {
        const name = `part-${String(first / marketsPerFile).padStart(5, "0")}.parquet`;
        const last = Math.min(first + marketsPerFile, markets);
        await copy(marketsQuery(first, last, outcomes, daysBack), join(marketsDirectory, name));
      }
      await copy(protocolScoresQuery(protocols, days, daysBack), join(directory, "protocol_scores.parquet"));
      return written;
    });
    const sizes = await Promise.all(files.map(async ({ path }) => (await stat(path)).size));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    const scores = protocols * (days - daysBack);
    return { directory, markets: rows - scores, protocols, scores, files: files.length, bytes };
  } finally {
    instance.closeSync();
    await rm(join(directory, ".duckdb"), { recursive: true, force: true });
  }
}
