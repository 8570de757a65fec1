import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { openSources, type SourcesOptions } from "../snapshots/sources/open-sources.ts";
import type { OpenSources } from "../snapshots/sources/sources.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { parseS3Location, type S3Location } from "../snapshots/store/storage.ts";
import { counted, UsageError } from "./cli.ts";
import type { Progress } from "./progress.ts";
import type { Shell } from "./shell.ts";

/** Parses --sources into an absolute path or a place on S3. Throws UsageError when it is neither. */
export function sourcesLocation(shell: Shell, location: string): string | S3Location {
  if (!isStoreLocation(location)) throw new UsageError("--sources takes a directory or s3://bucket/prefix");
  return parseS3Location(location) ?? shell.path(location);
}

/**
 * How a run opens the sources at a place, perhaps more than once. Sources on S3 are fetched into the user's cache
 * first, except known files, which need not be fetched at all.
 */
export function sourcesAt(
  shell: Shell,
  location: string | S3Location,
  temporaryDirectory: string,
  progress: Progress,
): OpenSources {
  const told = new Set<string>();
  const open = async (directory: string, more: Partial<SourcesOptions>) => {
    const sources = await openSources(directory, { now: new Date(), temporaryDirectory, ...more });
    for (const warning of sources.warnings) {
      if (!told.has(warning)) shell.warn(warning);
      told.add(warning);
    }
    return sources;
  };
  if (typeof location === "string") return (known) => open(location, { known });
  return async (known) => {
    const { createS3Client } = await import("../snapshots/store/backends/s3.ts");
    const { mirrorSources } = await import("../snapshots/sources/files/mirror.ts");
    const client = createS3Client(shell.env);
    const options = { cacheDirectory: cacheDirectory(shell), progress, known };
    const mirror = await mirrorSources(location, client, options).finally(() => client.destroy());
    try {
      shell.say(
        `Fetched ${counted(mirror.downloaded.objects, "file")} (${mirror.downloaded.bytes} bytes) of the sources`,
      );
      const { directory, listed, unfetched } = mirror;
      const sources = await open(directory, { mirrorOf: mirror.location, known, listed, unfetched });
      const close = async () => {
        await sources.close();
        await mirror.close();
      };
      return { ...sources, close };
    } catch (error) {
      await mirror.close();
      throw error;
    }
  };
}

/** The user's cache folder (XDG Base Directory Specification). */
function cacheDirectory({ env }: Shell): string {
  const { XDG_CACHE_HOME = "", HOME = homedir() } = env;
  const base = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(HOME, ".cache");
  return join(base, "protocol-risk-score-service");
}
