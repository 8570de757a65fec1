import { Fault } from "../../../schemas/errors.ts";
import { sharedTable } from "../../../schemas/rooms/sharing.ts";
import { type Shape, sourceName } from "../../../schemas/shapes.ts";
import type { ExportFile, ExportRecord, ParquetFile } from "../../../schemas/store/stored-objects.ts";
import { exportedColumns, maxInteger } from "../../export/export-records.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { CommitLog } from "../catalog/commit-log.ts";
import type { Exports } from "../catalog/exports.ts";
import { canonicalTime, invalidParameter, optionalInteger, type Parameters, timeOf } from "../parameters.ts";

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

/** The newest version by default. */
export async function findVersion(
  source: TableSource,
  { version, timestamp }: { version?: number | undefined; timestamp?: string | undefined },
): Promise<TableVersion> {
  if (version !== undefined && timestamp !== undefined)
    throw invalidParameter("version", "version and timestamp exclude each other; give one of them.");
  const versions = await versionsOf(source);
  // Throws where the log is damaged, so that nobody can tell whether there was such a version.
  const leadsTo = (number: number) => source.catalog.log.entry(number);
  if (timestamp !== undefined) {
    const time = isoOf("timestamp", timestamp);
    const match = versions.find(({ publishedAt }) => publishedAt <= time);
    if (!match) await leadsTo(1);
    return match ?? missing(versions, `The table has no version at or before ${time}`);
  }
  if (version === undefined) return versions[0] ?? missing(versions, "The table has no version yet");
  const match = versions.find((each) => each.version === version);
  if (!match) await leadsTo(version);
  return match ?? missing(versions, `There is no version ${version}`);
}

/** The oldest version that was published at or after a time. */
export async function versionSince(source: TableSource, startingTimestamp: string): Promise<TableVersion> {
  const versions = await versionsOf(source);
  const time = isoOf("startingTimestamp", startingTimestamp);
  const first = await firstSince(source.catalog.log, time);
  const match = versions.findLast(({ version }) => version >= first);
  return match ?? missing(versions, `The table has no version at or after ${time}`);
}

/** Turns a time of the protocol into the form that commits have. */
export const isoOf = (name: string, text: string) => canonicalTime(timeOf(name, text, 0));

function missing(versions: readonly TableVersion[], what: string): never {
  const named = versions
    .slice(0, namedVersions)
    .map(({ version, publishedAt }) => `${version} (${publishedAt})`);
  const rest = versions.length > named.length ? ` and ${versions.length - named.length} older ones` : "";
  const there = named.length > 0 ? `it has ${named.join(", ")}${rest}` : "the publisher exports snapshots";
  throw new Fault("VERSION_NOT_FOUND", `${what}; ${there}.`);
}

/** The two forms of answers about a table: lines of the protocol's own, and lines that hold actions of Delta logs. */
export type ResponseFormat = "parquet" | "delta";

/** Where a file is read without a header, and until when (epoch milliseconds). */
export interface FileAddress {
  url: string;
  expirationTimestamp: number;
}

/** Every table must have an id. There is only this one. */
const tableId = "6d61726b-6574-4073-8072-732e61726368";

/** Lines that say what the table is, `withVersion` or without. */
export function tableLines(
  format: ResponseFormat,
  { version, files }: Pick<TableVersion, "version" | "files">,
  withVersion: boolean,
): object[] {
  const size = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const about = { ...(withVersion && { version }), size, numFiles: files.length };
  const delta = format === "delta";
  const metadata = {
    id: tableId,
    name: sharedTable.name,
    format: { provider: "parquet", ...(delta && { options: {} }) },
    schemaString: deltaSchema,
    partitionColumns: [],
    configuration: { [delta ? "delta.enableChangeDataFeed" : "enableChangeDataFeed"]: "true" },
  };
  if (!delta) return [{ protocol: { minReaderVersion: 1 } }, { metaData: { ...metadata, ...about } }];
  return [
    { protocol: { deltaProtocol: { minReaderVersion: 1, minWriterVersion: 4 } } },
    { metaData: { ...about, deltaMetadata: metadata } },
  ];
}

/** What the rows of a file are: those of a version, or of what it changed, where "add" has only new ones. */
type FileKind = "file" | "add" | "cdf";

/** A line for a file. Only the files of a version have statistics, in JSON as Delta tables have it. */
export function fileLine(
  format: ResponseFormat,
  { version, publishedAt }: Pick<TableVersion, "version" | "publishedAt">,
  kind: FileKind,
  file: ParquetFile & Partial<ExportFile>,
  { url, expirationTimestamp }: FileAddress,
): object {
  const [id, size, timestamp] = [file.hash, file.bytes, Date.parse(publishedAt)];
  const stats = kind === "file" && { stats: JSON.stringify({ numRecords: file.rows, ...file.stats }) };
  const common = { id, size, version, timestamp, expirationTimestamp };
  if (format === "parquet") return { [kind]: { url, partitionValues: {}, ...stats, ...common } };
  const action = { path: url, partitionValues: {}, size };
  const deltaSingleAction =
    kind === "cdf"
      ? { cdc: { ...action, dataChange: false } }
      : { add: { ...action, modificationTime: timestamp, dataChange: true, ...stats } };
  return { file: { ...common, deltaSingleAction } };
}

/** What one version changed, as Parquet files. Where all its rows are new, they are those of an export. */
interface VersionChanges {
  version: number;
  publishedAt: string;
  kind: Exclude<FileKind, "file">;
  /** The hash of the change record that the files are made from. */
  changes: string | undefined;
  files: readonly ParquetFile[];
}

const maxVersions = 1000;

/** Both ends are included. */
export async function changesOf(
  source: TableSource,
  parameters: Parameters,
): Promise<{ newest: TableVersion; first: number; versions: VersionChanges[] }> {
  const newest = await findVersion(source, {});
  const { exports } = source;
  const { log } = source.catalog;
  const end = async (name: "starting" | "ending") => {
    const version = optionalInteger(parameters, `${name}Version`, 0, Number.MAX_SAFE_INTEGER);
    const timestamp = parameters.get(`${name}Timestamp`);
    if (version !== undefined && timestamp !== undefined)
      throw invalidParameter(`${name}Version`, `${name}Version and ${name}Timestamp exclude each other.`);
    if (timestamp === undefined) return version;
    const time = isoOf(`${name}Timestamp`, timestamp);
    if (name === "ending") return (await log.find(({ publishedAt }) => publishedAt <= time))?.commit ?? 0;
    return firstSince(log, time);
  };
  const [first, last = newest.version] = [await end("starting"), await end("ending")];
  if (first === undefined)
    throw invalidParameter("startingVersion", "Give startingVersion or startingTimestamp.");
  if (first > newest.version || first > last)
    throw invalidParameter(
      "startingVersion",
      `The changes begin after they end: the newest version is ${newest.version}.`,
    );
  // There is no version 0, which clients begin with.
  const [from, to] = [Math.max(first, 1), Math.min(last, newest.version)];
  if (to - from >= maxVersions)
    throw invalidParameter("endingVersion", `Ask for at most ${maxVersions} versions at a time.`);
  const versions: VersionChanges[] = [];
  for (let version = from; version <= to; version += 1) {
    const { publishedAt, snapshotId, changes } = (await log.entry(version))!;
    const isSame = (await log.believable(version - 1))?.snapshotId === snapshotId;
    const changed = changes && !isSame ? await exports.changes(changes.hash) : undefined;
    // All rows of the first version are new.
    const first = !changes && version === 1 ? await exports.list() : [];
    const added = first.find((each) => each.snapshotId === snapshotId)?.files;
    const files = isSame ? [] : (changed ?? added);
    if (!files)
      throw new Fault(
        "VERSION_NOT_FOUND",
        `What version ${version} changed was not exported; begin with a later version, or read the table anew. The ` +
          "publisher exports changes with publish --export.",
      );
    versions.push({ version, publishedAt, kind: added ? "add" : "cdf", changes: changes?.hash, files });
  }
  return { newest, first: from, versions };
}

/** The first commit published at or after a time, or the next one there will be. Throws where the log is damaged. */
const firstSince = async (log: CommitLog, time: string) =>
  ((await log.find(({ publishedAt }) => publishedAt < time))?.commit ?? 0) + 1;

const structOf = (members: readonly { name: string; shape: Shape }[]): object => ({
  type: "struct",
  fields: members.map(({ name, shape }) => ({ name, type: typeOf(shape), nullable: true, metadata: {} })),
});

/** A type in the JSON of Delta tables. */
function typeOf(shape: Shape): unknown {
  switch (shape.kind) {
    case "list":
      return { type: "array", elementType: typeOf(shape.of), containsNull: true };
    case "struct":
      return structOf(
        Object.entries(shape.members).map(([name, shape]) => ({ name: sourceName(name), shape })),
      );
    case "integer":
      return shape.max > maxInteger ? "long" : "integer";
    default:
      return types[shape.kind];
  }
}

const types = { text: "string", double: "double", boolean: "boolean", time: "timestamp", any: "string" };

/** The schema of an export's files in the JSON of Delta tables. */
export const deltaSchema = JSON.stringify(structOf(exportedColumns));
