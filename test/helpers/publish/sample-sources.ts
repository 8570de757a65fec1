import type { PublishOptions, PublishReport } from "../../../snapshots/publish/publish.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { OpenSources } from "../../../snapshots/sources/sources.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { writeOddMarkets } from "../archive/odd-markets.ts";
import { publishFreely } from "./publish-freely.ts";

/** When every test run of a publisher starts: after all times of samples and of real data. */
const publishedAt = new Date("2030-01-01T00:00:00.000Z");

/** How a test publishes, where it differs from the plainest way. */
export interface PublishChoices {
  dryRun?: boolean;
  threads?: number;
  faulty?: ReadonlySet<string>;
  progress?: () => void;
  /** Where the public tree is found, which makes the artefacts too. */
  siteUrl?: string;
  signing?: PublishOptions["signing"];
}

/** Publishes Parquet sources as the command does. `folder` takes temporary files. */
export async function publishSources(
  directory: string,
  storage: Storage,
  folder: string,
  { dryRun = false, threads, faulty = new Set(), progress = () => {}, siteUrl, signing }: PublishChoices = {},
): Promise<PublishReport> {
  const where = { now: publishedAt, temporaryDirectory: folder, ...(threads !== undefined && { threads }) };
  const sources: OpenSources = (known) => openSources({ path: directory }, { ...where, known });
  const how = { dryRun, faulty, now: () => publishedAt, progress, siteUrl, signing };
  return publishFreely({ sources, storage, temporaryDirectory: folder, ...how });
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
