import { Fault } from "../../../schemas/errors.ts";
import type { ExportRecord } from "../../../schemas/store/snapshot.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Exports } from "../catalog/exports.ts";
import { invalidParameter } from "../errors.ts";
import { timeOf } from "../query/parameters.ts";

/** What the shared table is read from. */
export interface TableSource {
  catalog: Pick<Catalog, "requireCurrent" | "log">;
  exports: Pick<Exports, "list" | "changes">;
}

/** A version of the shared table: a commit whose snapshot has an export. */
export interface TableVersion {
  version: number;
  /** ISO 8601. */
  publishedAt: string;
  snapshotId: string;
  files: ExportRecord["files"];
}

/** The newest version by default. */
export interface WantedVersion {
  version?: number | undefined;
  timestamp?: string | undefined;
}

const namedVersions = 20;

/** Newest first. Every commit of an exported snapshot is a version, unless it was withdrawn. */
async function versionsOf({ catalog, exports }: TableSource): Promise<TableVersion[]> {
  catalog.requireCurrent();
  const { log } = catalog;
  const records = new Map((await exports.list()).map((record) => [record.snapshotId, record]));
  const commits = records.size > 0 ? await log.believed() : [];
  return commits.flatMap(({ commit, snapshotId, publishedAt }) => {
    const record = records.get(snapshotId);
    if (!record || log.isWithdrawn(commit)) return [];
    return [{ version: commit, publishedAt, snapshotId, files: record.files }];
  });
}

/** Throws INVALID_PARAMETER, or VERSION_NOT_FOUND that names those that there are. */
export async function findVersion(
  source: TableSource,
  { version, timestamp }: WantedVersion,
): Promise<TableVersion> {
  if (version !== undefined && timestamp !== undefined)
    throw invalidParameter("version", "version and timestamp exclude each other; give one of them.");
  const versions = await versionsOf(source);
  if (timestamp !== undefined) {
    const time = isoOf("timestamp", timestamp);
    const found = versions.find(({ publishedAt }) => publishedAt <= time);
    return found ?? missing(versions, `The table has no version at or before ${time}`);
  }
  const found = version === undefined ? versions[0] : versions.find((each) => each.version === version);
  return (
    found ??
    missing(
      versions,
      version === undefined ? "The table has no version yet" : `There is no version ${version}`,
    )
  );
}

/** The oldest version that was published at or after a time. */
export async function versionSince(source: TableSource, startingTimestamp: string): Promise<TableVersion> {
  const versions = await versionsOf(source);
  const time = isoOf("startingTimestamp", startingTimestamp);
  const found = versions.findLast(({ publishedAt }) => publishedAt >= time);
  return found ?? missing(versions, `The table has no version at or after ${time}`);
}

/** Turns a time of the protocol into the form that commits have. */
export const isoOf = (name: string, text: string) => new Date(timeOf(name, text, 0)).toISOString();

function missing(versions: readonly TableVersion[], what: string): never {
  const named = versions
    .slice(0, namedVersions)
    .map(({ version, publishedAt }) => `${version} (${publishedAt})`);
  const rest = versions.length > named.length ? ` and ${versions.length - named.length} older ones` : "";
  const there = named.length > 0 ? `it has ${named.join(", ")}${rest}` : "the publisher exports snapshots";
  throw new Fault("VERSION_NOT_FOUND", `${what}; ${there}.`);
}
