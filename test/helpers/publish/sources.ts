import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { DuckDBConnection, DuckDBType, Json } from "@duckdb/node-api";
import { afterAll, beforeAll, expect } from "vitest";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { openSession } from "../../../snapshots/sources/duckdb/duckdb.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import type { SourceFolder } from "../../../snapshots/sources/files/source-files.ts";
import { inspectSources, openSources, type SourcesOptions } from "../../../snapshots/sources/open-sources.ts";
import {
  type Refusal,
  type RenderedMarket,
  type ScoreRow,
  SourceRefusal,
  type Sources,
} from "../../../snapshots/sources/sources.ts";
import { testFolder } from "../store/test-folder.ts";

type SourceMarket = Omit<RenderedMarket, "digest" | "file" | "line"> & { json: string };

/** The start of every run in the tests: a day after the end of the sample. */
export const start = new Date("2026-01-01T00:00:00.000Z");

/** Queries by file name, without their ending: `markets`, or `markets/a` and so on. */
export type SourceFiles = Record<string, string>;

/** Sources for the tests of a file, made before the first and removed after the last. */
export function sourceFixtures(): SourceFixtures {
  const fixtures = new SourceFixtures(testFolder());
  beforeAll(() => fixtures.open());
  afterAll(() => fixtures.close());
  return fixtures;
}

/**
 * Writes sources from queries over sound rows: the tables `markets` (40) and `scores` (15), numbered by `n`.
 */
class SourceFixtures {
  /** A temporary folder for what a test writes itself. */
  readonly folder: string;
  sql!: DuckDBConnection;
  close!: () => void;
  #written = 0;

  constructor(folder: string) {
    this.folder = folder;
  }

  async open(): Promise<void> {
    const { folder } = this;
    const sample = join(folder, "sample");
    await writeSample({ directory: sample, markets: 40, protocols: 5, days: 3, outcomes: 20, seed: 7 });
    const instance = await openSession({
      memoryMegabytes: 200,
      temporaryDirectory: join(folder, "spill"),
      ordered: true,
    });
    const connection = await instance.connect();
    const numbered = (name: string, files: string) =>
      `CREATE TABLE ${name} AS
        SELECT file_row_number::INTEGER AS n, * FROM read_parquet(${quoted(join(sample, files))})`;
    await connection.run(numbered("markets", "markets/*.parquet"));
    await connection.run(numbered("scores", "protocol_scores.parquet"));
    this.sql = connection;
    this.close = () => {
      connection.closeSync();
      instance.closeSync();
    };
  }

  /** Writes the files to a fresh directory; a source that is not mentioned is sound. */
  async write(files: SourceFiles, options = ""): Promise<string> {
    this.#written += 1;
    const directory = join(this.folder, `sources ${this.#written}`);
    const mentioned = (source: string) => Object.keys(files).some((name) => name.split("/")[0] === source);
    const all = {
      ...(mentioned("markets") ? {} : { markets: "FROM markets" }),
      ...(mentioned("protocol_scores") ? {} : { protocol_scores: "FROM scores" }),
      ...files,
    };
    for (const [name, query] of Object.entries(all)) {
      const path = join(directory, `${name}.parquet`);
      await mkdir(dirname(path), { recursive: true });
      await this.sql.run(
        `COPY (SELECT * EXCLUDE (n) FROM (${query})) TO ${quoted(path)} (FORMAT parquet ${options})`,
      );
    }
    return directory;
  }

  /** Rows of a query over the tables. */
  async rows(query: string, parameters: Record<string, string> = {}): Promise<Json[][]> {
    return (await this.sql.runAndReadAll(query, parameters)).getRowsJson();
  }

  /** The columns that a source written from a table has. */
  async columns(table: "markets" | "scores"): Promise<Map<string, DuckDBType>> {
    const result = await this.sql.run(`SELECT * EXCLUDE (n) FROM ${table} LIMIT 0`);
    return new Map(result.columnNames().map((name, index) => [name, result.columnType(index)]));
  }
}

/** All that sources hold. */
export interface SourceContent {
  markets: SourceMarket[];
  scores: ScoreRow[];
  warnings: string[];
}

/** Opens sources, hands them on, and closes them again. */
export async function withSources<T>(
  folder: string | SourceFolder,
  use: (sources: Sources) => Promise<T>,
  options: Partial<SourcesOptions> = {},
): Promise<T> {
  const where = typeof folder === "string" ? { path: folder } : folder;
  const sources = await openSources(where, { now: start, temporaryDirectory: tmpdir(), ...options });
  try {
    return await use(sources);
  } finally {
    await sources.close();
  }
}

/** Reads everything. Markets come sorted by id. */
export function readAll(
  folder: string | SourceFolder,
  options: Partial<SourcesOptions> = {},
): Promise<SourceContent> {
  return withSources(
    folder,
    async (sources) => {
      const scores = await sources.scores();
      const markets: SourceMarket[] = [];
      for await (const rows of sources.markets()) {
        for (const row of rows) {
          // Digests depend on the columns' types, and rows on their files; what is published does not.
          const { digest: _, file: __, line, ...market } = row;
          markets.push({ ...market, json: String(line) });
        }
      }
      markets.sort((a, b) => (a.id < b.id ? -1 : 1));
      return { markets, scores, warnings: sources.warnings };
    },
    options,
  );
}

/** What the sources are refused for; fails when they are not. A check must name all of it, and may name more. */
export async function refusalsOf(directory: string): Promise<readonly Refusal[]> {
  const { refusals } = await refusedBy(readAll(directory));
  expect(await checkedRefusals(directory)).toEqual(expect.arrayContaining([...refusals]));
  return refusals;
}

/** What a check of the sources names; fails when it names nothing. */
export async function checkedRefusals(directory: string): Promise<readonly Refusal[]> {
  const checking = inspectSources({ path: directory }, { now: start, temporaryDirectory: tmpdir() });
  return (await refusedBy(checking)).refusals;
}

/** How sources are refused; fails when they are not. */
export async function refusedBy(work: Promise<unknown>): Promise<SourceRefusal> {
  try {
    await work;
  } catch (error) {
    if (error instanceof SourceRefusal) return error;
    throw error;
  }
  throw new Error("the sources were not refused");
}

/** A query for the markets with one column of row 7 (of the score table: row 7) replaced. */
export function replaced(table: "markets" | "scores", column: string, value: string): string {
  return `SELECT * REPLACE (CASE WHEN n = 7 THEN ${value} ELSE ${column} END AS ${column}) FROM ${table}`;
}

/** A query for the markets in which every dimension, `d`, is replaced: for other types. */
export function replacedDimensions(value: string): string {
  return `SELECT * REPLACE (list_transform(dimensions, lambda d: ${value}) AS dimensions) FROM markets`;
}
