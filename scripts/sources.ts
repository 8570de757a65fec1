import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, isAbsolute, join } from "node:path";
import { isScript, runScript } from "../snapshots/sources/duckdb/run-script.ts";
import type { SourceFolder } from "../snapshots/sources/files/source-files.ts";
import { type Inspection, inspectSources, openSources } from "../snapshots/sources/open-sources.ts";
import { type KnownFiles, type OpenSources, SourceRefusal } from "../snapshots/sources/sources.ts";
import { ifPresent } from "../snapshots/store/errors.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { parseS3Location, type S3Location } from "../snapshots/store/storage.ts";
import { counted, type Progress, type Shell, usageError } from "./cli.ts";

/** Parses --sources into the absolute path of a directory or script, or a place on S3. */
export function sourcesLocation(shell: Shell, location: string): string | S3Location {
  const remote = isStoreLocation(location) ? parseS3Location(location) : undefined;
  if (!isStoreLocation(location) || (remote && isScript(location)))
    throw usageError("--sources takes a directory, s3://bucket/prefix or a local file *.sql");
  return remote ?? shell.path(location);
}

/** The sources at a place. Both functions may be called more than once. */
export function sourcesAt(
  shell: Shell,
  location: string | S3Location,
  temporaryDirectory: string,
  progress: Progress,
) {
  const reported = new Set<string>();
  let local: Promise<SourceFolder> | undefined;

  /**
   * Brings the sources into a local folder. A directory stays where it is. A script runs once and leaves its tables in
   * the temporary folder. Sources on S3 are fetched into the user's cache, but for known files, which may be left out.
   */
  async function fetch(knownFiles?: KnownFiles): Promise<SourceFolder> {
    if (typeof location === "string") {
      local ??= isScript(location) ? tablesOfScript(shell, location, temporaryDirectory) : folderAt(location);
      return local;
    }
    const { createS3Client } = await import("../snapshots/store/backends/s3.ts");
    const { mirrorSources } = await import("../snapshots/sources/files/mirror.ts");
    const client = createS3Client(shell.env);
    const options = { cacheDirectory: cacheDirectory(shell), progress, knownFiles };
    const mirror = await mirrorSources(location, client, options).finally(() => client.destroy());
    shell.say(
      `Fetched ${counted(mirror.downloaded.objects, "file")} (${mirror.downloaded.bytes} bytes) of the sources`,
    );
    return mirror;
  }

  const open: OpenSources = async (knownFiles, pinned) => {
    const folder = await fetch(knownFiles);
    const now = pinned?.now ?? new Date();
    const sources = await openSources(folder, { now, temporaryDirectory, knownFiles, pinned });
    for (const warning of sources.warnings) {
      if (!reported.has(warning)) shell.warn(warning);
      reported.add(warning);
    }
    return sources;
  };

  /**
   * Reads everything that the sources hold, and prints its warnings. Throws SourceRefusal with everything that a
   * publish would refuse.
   */
  async function inspect(): Promise<Inspection> {
    const { warn } = shell;
    return inspectSources(await fetch(), { now: new Date(), temporaryDirectory, warn });
  }

  return { open, inspect };
}

async function folderAt(path: string): Promise<SourceFolder> {
  const info = await ifPresent(stat(path));
  if (!info)
    throw new SourceRefusal([
      {
        file: path,
        rule: "there is no such folder; --sources names one with markets.parquet and protocol_scores.parquet",
      },
    ]);
  if (info.isFile())
    throw usageError(
      `--sources: ${path} is a file; a DuckDB script *.sql can read it (.github/deploy/SOURCES.md), ` +
        "and Parquet files are named by their directory",
    );
  return { path };
}

/** Runs a script in the user's folder. Its tables stay until the temporary folder is removed. */
async function tablesOfScript(shell: Shell, path: string, temporaryDirectory: string): Promise<SourceFolder> {
  const before = process.cwd();
  process.chdir(shell.directory);
  const rows = await runScript(path, { temporaryDirectory, tell: (line) => shell.say(line) }).finally(() =>
    process.chdir(before),
  );
  shell.say(`Ran ${basename(path)}: ${rows.markets} markets, ${rows.protocol_scores} protocol_scores`);
  return { path: rows.directory, script: basename(path) };
}

/** The user's cache folder (XDG Base Directory Specification). */
function cacheDirectory({ env }: Shell): string {
  const { XDG_CACHE_HOME = "", HOME } = env;
  const base = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(HOME || homedir(), ".cache");
  return join(base, "protocol-risk-score-service");
}
