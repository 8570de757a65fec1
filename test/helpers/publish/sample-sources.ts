import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { OpenSources, Sources } from "../../../snapshots/sources/sources.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { writeOddMarkets } from "../archive/odd-markets.ts";
import { publishFreely } from "./publish-freely.ts";

/** When the runs of these tests start: after all times in a sample. */
export const publishTime = new Date("2030-01-01T00:00:00.000Z");

/** How a run differs from the plainest one. */
export type RunChoices = Partial<Omit<PublishOptions, "sources" | "storage" | "temporaryDirectory">> & {
  /** Lets pass what the guards print. */
  freely?: boolean;
  /** Stands between the sources and the run. */
  change?: (sources: Sources) => Sources;
};

/** A run, with how many markets it took over as they were, and rendered. */
type CountedRun = PublishReport & { known: number; rendered: number };

/** Publishes Parquet sources as the command does. `folder` takes temporary files. */
export async function publishSources(
  directory: string,
  storage: Storage,
  folder: string,
  { freely = true, change = (sources) => sources, ...choices }: RunChoices = {},
): Promise<CountedRun> {
  let rendered = 0;
  const sources: OpenSources = async (knownFiles) => {
    const options = { now: publishTime, temporaryDirectory: folder, knownFiles };
    const changed = change(await openSources({ path: directory }, options));
    return {
      ...changed,
      async *markets(rows) {
        rendered = 0;
        for await (const batch of changed.markets(rows)) {
          rendered += batch.length;
          yield batch;
        }
      },
    };
  };
  const run = freely ? publishFreely : publish;
  const now = () => publishTime;
  const report = await run({ now, ...choices, sources, storage, temporaryDirectory: folder });
  return { ...report, rendered, known: report.counts.markets - rendered };
}

/** Writes small Parquet sources of a sample alone, for tests that any rows do. */
export async function writePlainSources(
  directory: string,
  markets = 40,
  { seed = 1, protocols = 12, outcomes = 10 } = {},
): Promise<string> {
  await writeSample({ directory, markets, seed, outcomes, protocols, days: 3 });
  return directory;
}

/** Makes the tables `markets` and `scores` of a sample, for SQL to edit, which is written into a folder of its own. */
export async function loadSample(
  sql: DuckDBConnection,
  directory: string,
  ...choices: [markets: number, { protocols: number }]
): Promise<void> {
  await writePlainSources(directory, ...choices);
  for (const [table, files] of [
    ["markets", "markets/*.parquet"],
    ["scores", "protocol_scores.parquet"],
  ] as const)
    await sql.run(`CREATE OR REPLACE TABLE ${table} AS FROM read_parquet(${quoted(join(directory, files))})`);
}

/** Writes small Parquet sources: a sample, and a file of over 500 hand-made markets beside it. */
export async function writeSources(
  directory: string,
  { markets = 300, seed = 1, outcomes = 60 } = {},
): Promise<string> {
  await writePlainSources(directory, markets, { seed, outcomes });
  await writeOddMarkets(directory);
  return directory;
}
