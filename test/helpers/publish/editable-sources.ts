import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { OpenSources, Sources } from "../../../snapshots/sources/sources.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishFreely } from "./publish-freely.ts";

const made = new Map<string, Promise<unknown>>();

/** Makes the tables `markets` and `scores` of a sample, for SQL to edit. The sample of a folder is made once. */
export async function loadSample(
  sql: DuckDBConnection,
  folder: string,
  { markets = 1_500, protocols = 12 } = {},
): Promise<void> {
  const directory = join(folder, `sample-${markets}-${protocols}`);
  if (!made.has(directory))
    made.set(directory, writeSample({ directory, markets, protocols, days: 3, outcomes: 40, seed: 5 }));
  await made.get(directory);
  const load = (table: string, file: string) =>
    sql.run(`CREATE OR REPLACE TABLE ${table} AS FROM read_parquet(${quoted(join(directory, file))})`);
  await load("markets", "markets/*.parquet");
  await load("scores", "protocol_scores.parquet");
}

/** Writes the two tables, or queries in their place, as sources. */
export async function writeTables(
  sql: DuckDBConnection,
  directory: string,
  { markets = "FROM markets", scores = "FROM scores" } = {},
): Promise<string> {
  await mkdir(directory, { recursive: true });
  for (const [name, query] of [
    ["markets", markets],
    ["protocol_scores", scores],
  ] as const) {
    await sql.run(`COPY (${query}) TO ${quoted(join(directory, `${name}.parquet`))} (FORMAT parquet)`);
  }
  return directory;
}

/** When the runs of these tests start: after all times in a sample. */
export const publishTime = new Date("2030-01-01T00:00:00.000Z");

/** A run and how many markets it took over as they were, and rendered. */
export interface CountedRun {
  report: PublishReport;
  known: number;
  rendered: number;
}

/** How a run differs from the plainest one. */
export type RunChoices = Partial<Omit<PublishOptions, "sources" | "storage" | "temporaryDirectory">> & {
  /** Lets pass what the guards print. */
  freely?: boolean;
  /** Stands between the sources and the run. */
  change?: (sources: Sources) => Sources;
};

/** Publishes sources, and counts the rows that come as ordinals and those that are rendered. */
export async function publishCounted(
  directory: string,
  storage: Storage,
  folder: string,
  { freely = true, change = (sources) => sources, ...choices }: RunChoices = {},
): Promise<CountedRun> {
  const counts = { rendered: 0 };
  const sources: OpenSources = async (knownFiles) => {
    const opened = await openSources(
      { path: directory },
      { now: publishTime, temporaryDirectory: folder, knownFiles },
    );
    const changed = change(opened);
    return {
      ...changed,
      async *markets(rows) {
        counts.rendered = 0;
        for await (const batch of changed.markets(rows)) {
          counts.rendered += batch.length;
          yield batch;
        }
      },
    };
  };
  const run = freely ? publishFreely : publish;
  const now = () => publishTime;
  const report = await run({ now, ...choices, sources, storage, temporaryDirectory: folder });
  return { report, rendered: counts.rendered, known: report.counts.markets - counts.rendered };
}
