import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { mirrorSources } from "../snapshots/sources/mirror.ts";
import { openSources, type SourcesOptions } from "../snapshots/sources/open-sources.ts";
import type { Sources } from "../snapshots/sources/sources.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { createS3Client, parseS3Location, type S3Location } from "../snapshots/store/s3.ts";
import { say, UsageError, userPath } from "./cli.ts";
import type { Progress } from "./progress.ts";

/** Checks what a user gave as sources. Throws UsageError when it is neither a directory nor on S3. */
export function sourcesLocation(location: string): string | S3Location {
  if (!isStoreLocation(location)) throw new UsageError("--sources takes a directory or s3://bucket/prefix");
  return parseS3Location(location) ?? userPath(location);
}

/** Opens the sources for some work, and closes them; those on S3 go through the user's cache. */
export async function withSources<T>(
  location: string | S3Location,
  temporaryDirectory: string,
  progress: Progress,
  work: (sources: Sources) => Promise<T>,
): Promise<T> {
  const open = async (directory: string, more: Partial<SourcesOptions> = {}) => {
    const sources = await openSources(directory, { now: new Date(), temporaryDirectory, ...more });
    try {
      for (const warning of sources.warnings) say(`Warning: ${warning}`);
      return await work(sources);
    } finally {
      await sources.close();
    }
  };
  if (typeof location === "string") return open(location);
  const client = createS3Client(process.env);
  const options = { cacheDirectory: cacheDirectory(), progress };
  const mirror = await mirrorSources(location, client, options).finally(() => client.destroy());
  try {
    say(`Fetched ${mirror.downloaded.objects} files (${mirror.downloaded.bytes} bytes) of the sources`);
    return await open(mirror.directory, { mirrorOf: mirror.location });
  } finally {
    await mirror.close();
  }
}

/** Where users keep what can be fetched again (XDG Base Directory Specification). */
function cacheDirectory(): string {
  const { XDG_CACHE_HOME = "" } = process.env;
  const base = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(homedir(), ".cache");
  return join(base, "protocol-risk-score-service");
}
