import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import type { PublishOptions } from "../../../snapshots/publish/publish.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { writeOddMarkets } from "../archive/odd-markets.ts";
import { publishCounted } from "./editable-sources.ts";

/** How a test publishes, where it differs from the plainest way. */
export type PublishChoices = Pick<PublishOptions, "dryRun" | "faulty" | "progress" | "signing" | "names">;

/** Publishes Parquet sources as the command does. `folder` takes temporary files. */
export async function publishSources(
  directory: string,
  storage: Storage,
  folder: string,
  choices: PublishChoices = {},
): Promise<PublishReport> {
  return (await publishCounted(directory, storage, folder, choices)).report;
}

/** Writes small Parquet sources of a sample alone, for tests that any rows do. */
export async function writePlainSources(directory: string, markets = 40, seed = 1): Promise<string> {
  await writeSample({ directory, markets, seed, outcomes: 10, protocols: 12, days: 3 });
  return directory;
}

/** Writes small Parquet sources: a sample, and a file of over 500 hand-made markets beside it. */
export async function writeSources(
  directory: string,
  { markets = 300, seed = 1, outcomes = 60 } = {},
): Promise<string> {
  await writeSample({ directory, markets, seed, outcomes, protocols: 12, days: 3 });
  await writeOddMarkets(directory);
  return directory;
}
