import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { mirrorSources } from "../snapshots/sources/mirror.ts";
import { openSources, type SourcesOptions } from "../snapshots/sources/open-sources.ts";
import type { Sources } from "../snapshots/sources/sources.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { createS3Client, parseS3Location, type S3Location } from "../snapshots/store/s3.ts";
import { UsageError } from "./cli.ts";
import type { Progress } from "./progress.ts";
import type { Shell } from "./shell.ts";

/** Parses --sources into an absolute path or a place on S3. Throws UsageError when it is neither. */
export function sourcesLocation(shell: Shell, location: string): string | S3Location {
  if (!isStoreLocation(location)) throw new UsageError("--sources takes a directory or s3://bucket/prefix");
  return parseS3Location(location) ?? shell.path(location);
}

/** Opens the sources, passes them to `work` and closes them. Sources on S3 are fetched into the user's cache first. */
export async function withSources<T>(
  shell: Shell,
  location: string | S3Location,
  temporaryDirectory: string,
  progress: Progress,
  work: (sources: Sources) => Promise<T>,
): Promise<T> {
  const open = async (directory: string, more: Partial<SourcesOptions> = {}) => {
    const sources = await openSources(directory, { now: new Date(), temporaryDirectory, ...more });
    try {
      for (const warning of sources.warnings) shell.say(`Warning: ${warning}`);
      return await work(sources);
    } finally {
      await sources.close();
    }
  };
  if (typeof location === "string") return open(location);
  const client = createS3Client(shell.env);
  const options = { cacheDirectory: cacheDirectory(shell), progress };
  const mirror = await mirrorSources(location, client, options).finally(() => client.destroy());
  try {
    shell.say(`Fetched ${mirror.downloaded.objects} files (${mirror.downloaded.bytes} bytes) of the sources`);
    return await open(mirror.directory, { mirrorOf: mirror.location });
  } finally {
    await mirror.close();
  }
}

/** The user's cache folder (XDG Base Directory Specification). */
function cacheDirectory({ env }: Shell): string {
  const { XDG_CACHE_HOME = "", HOME = homedir() } = env;
  const base = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(HOME, ".cache");
  return join(base, "protocol-risk-score-service");
}
