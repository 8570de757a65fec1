import { Fault } from "../../../schemas/errors.ts";
import type { ParquetFile } from "../../../schemas/store/snapshot.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { invalidParameter } from "../errors.ts";
import { optionalInteger, type Parameters } from "../query/parameters.ts";
import { findVersion, isoOf, type TableSource, type TableVersion } from "./versions.ts";

/** What one version changed, as Parquet files. Where all its rows are new, they are those of an export. */
export interface VersionChanges {
  version: number;
  publishedAt: string;
  kind: "add" | "cdf";
  /** The hash of the change record that the files are made from. */
  changes: string | undefined;
  files: readonly ParquetFile[];
}

const maxVersions = 1000;

/**
 * Both ends are included. Throws INVALID_PARAMETER, or VERSION_NOT_FOUND that names the first version whose changes
 * were not exported.
 */
export async function changesOf(
  source: TableSource,
  parameters: Parameters,
): Promise<{ newest: TableVersion; first: number; versions: VersionChanges[] }> {
  const newest = await findVersion(source, {});
  const commits = await source.catalog.log.believed();
  const known = commits.filter(({ commit }) => commit <= newest.version).reverse();
  const end = (name: "starting" | "ending") => {
    const version = optionalInteger(parameters, `${name}Version`, 0, Number.MAX_SAFE_INTEGER);
    const timestamp = parameters.get(`${name}Timestamp`);
    if (version !== undefined && timestamp !== undefined)
      throw invalidParameter(`${name}Version`, `${name}Version and ${name}Timestamp exclude each other.`);
    if (timestamp === undefined) return version;
    const time = isoOf(`${name}Timestamp`, timestamp);
    if (name === "ending") return known.findLast(({ publishedAt }) => publishedAt <= time)?.commit ?? 0;
    return known.find(({ publishedAt }) => publishedAt >= time)?.commit ?? newest.version + 1;
  };
  const [first, last = newest.version] = [end("starting"), end("ending")];
  if (first === undefined)
    throw invalidParameter("startingVersion", "Give startingVersion or startingTimestamp.");
  if (first > newest.version || first > last)
    throw invalidParameter(
      "startingVersion",
      `The changes begin after they end: the newest version is ${newest.version}.`,
    );
  // There is no version 0, which clients begin with.
  const wanted = known.filter(({ commit }) => commit >= first && commit <= last);
  if (wanted.length > maxVersions)
    throw invalidParameter("endingVersion", `Ask for at most ${maxVersions} versions at a time.`);
  const versions: VersionChanges[] = [];
  for (const entry of wanted) {
    const before = known.find(({ commit }) => commit === entry.commit - 1);
    versions.push(await changesOfVersion(source.exports, entry, before));
  }
  return { newest, first: Math.max(first, 1), versions };
}

async function changesOfVersion(
  exports: TableSource["exports"],
  { commit: version, publishedAt, snapshotId, changes }: LogEntry,
  before: LogEntry | undefined,
): Promise<VersionChanges> {
  const of = { version, publishedAt, kind: "cdf" as const, changes: changes?.hash };
  if (before?.snapshotId === snapshotId) return { ...of, files: [] };
  if (changes) {
    const files = await exports.changes(changes.hash);
    if (files) return { ...of, files };
  } else if (version === 1) {
    const record = (await exports.list()).find((each) => each.snapshotId === snapshotId);
    if (record) return { ...of, kind: "add", files: record.files };
  }
  throw new Fault(
    "VERSION_NOT_FOUND",
    `What version ${version} changed was not exported; begin with a later version, or read the table anew. The ` +
      "publisher exports changes with publish --export.",
  );
}
