import { mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { DuckDBInstance } from "@duckdb/node-api";
import { Fault } from "../../schemas/errors.ts";
import type { SourceFileRef } from "../../schemas/store/stored-objects.ts";
import { clockTolerance } from "../store/log/commits.ts";
import { RefusalList, SourceRefusal } from "./contract/refusals.ts";
import { marketsTable, protocolScoresTable } from "./contract/source-tables.ts";
import type { SourceTable } from "./contract/table-schema.ts";
import { openSession, planMemory, withConnection } from "./duckdb/duckdb.ts";
import { digestKind, readCutPoints, readKeys, readMarkets } from "./duckdb/markets.ts";
import { countRows, type ListedSource, type OpenSource, refuseDuplicates } from "./duckdb/read-source.ts";
import { readScores } from "./duckdb/scores.ts";
import { groupFiles } from "./files/file-groups.ts";
import { contentOf, type HashedFiles, hashContents } from "./files/file-hashes.ts";
import { listSourceFiles, nameOfAll, passedWarning, type SourceFile } from "./files/source-files.ts";
import type { KnownFiles, MarketsFile, NamedContent, PinnedFiles, Sources } from "./sources.ts";

export interface SourcesOptions {
  /** The start of the run. Rows may be up to five minutes later. */
  now: Date;
  /** The address that the directory mirrors (mirror.ts), for messages. */
  mirrorOf?: string;
  /** The name of the script whose tables the directory's files hold (run-script.ts), for messages. */
  script?: string;
  /** Names of files and folders there that were passed over. */
  passed?: readonly string[];
  /** Digests of the addresses, ETags and sizes of the mirrored files, by name. */
  listed?: ReadonlyMap<string, string>;
  /** Known files of markets that were not fetched, by name. */
  unfetched?: ReadonlyMap<string, SourceFileRef>;
  /** The files of the current snapshot. Those that are unchanged are not read. */
  known?: KnownFiles | undefined;
  /** The files that a run in parts was planned with. */
  pinned?: PinnedFiles | undefined;
  /** A local folder for DuckDB's spill files. */
  temporaryDirectory: string;
  /** The memory limit of DuckDB's buffers, in millions of bytes; default 600. The process takes about 300 more. */
  memoryMegabytes?: number;
  /** The most threads to read with; fewer are used when row groups are large. Default: all cores. */
  threads?: number;
}

/**
 * Opens the Parquet sources of a directory. Throws SourceRefusal when files or columns are missing or do not match the
 * contract, when a source has no rows, or when keys repeat. Values are checked later, while they are read. Throws
 * UNREAD_FILES when files are not read and their rows are not known.
 */
export async function openSources(directory: string, options: SourcesOptions): Promise<Sources> {
  const { memoryMegabytes: megabytes = 600, threads } = options;
  const unfetched = options.unfetched ?? new Map();
  const listed = await bothOf(tablesOf(options), (table) => listSource(directory, table, options));
  const { instance, close } = await openSourceSession(listed, options);
  const { pinned } = options;
  try {
    const rowDigests = await withConnection(instance, digestKind);
    const [markets, scores] = listed;
    const hashed = await hashContents([...markets.files, ...scores.files], filesOfOthers(options));
    if (pinned) requirePinned(pinned, namedContents([...markets.files, ...scores.files], hashed, unfetched));
    const unchanged = findUnchanged(markets, { ...options, ...hashed, unfetched, rowDigests });
    const content = { ...hashed, unchanged, unfetched, listed: options.listed ?? new Map() };
    const limits = { megabytes, threads, checked: pinned !== undefined };
    const checked = await checkedSources(instance, listed, content, limits);
    return {
      ...checked,
      warnings: [...passedWarningOf(listed, options), ...checked.warnings],
      rowDigests,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Files that other parts of a run read, by name. The part that reads a file hashes it, and the plan says what is in it.
 * If each part hashed all files, that would be a fortieth of the work of a run in twelve.
 */
function filesOfOthers({ known, pinned }: SourcesOptions): Map<string, NamedContent> {
  const unread = new Set(known?.files.map(({ hash }) => hash));
  return new Map(pinned?.files.flatMap((file) => (unread.has(file.hash) ? [[file.name, file]] : [])));
}

export function tablesOf({ now }: SourcesOptions): readonly [markets: SourceTable, scores: SourceTable] {
  const latest = new Date(now.getTime() + clockTolerance);
  return [marketsTable(latest), protocolScoresTable(latest)];
}

/** Opens a DuckDB that can read only these files. */
export async function openSourceSession(
  listed: readonly ListedSource[],
  { temporaryDirectory, memoryMegabytes = 600 }: SourcesOptions,
): Promise<{ instance: DuckDBInstance; close: () => Promise<void> }> {
  // DuckDB's spill files have fixed names, so two processes in one folder would overwrite each other's.
  const spill = await mkdtemp(join(resolve(temporaryDirectory), "duckdb-"));
  const instance = await openSession({
    memoryMegabytes,
    temporaryDirectory: spill,
    ordered: false,
    allowedPaths: listed.flatMap(({ files }) => files.map(({ path }) => path)),
  });
  const close = async () => {
    instance.closeSync();
    await rm(spill, { recursive: true, force: true });
  };
  return { instance, close };
}

interface FileContents extends HashedFiles {
  /** Only files of markets. */
  unchanged: ReadonlyMap<SourceFile, SourceFileRef>;
  unfetched: ReadonlyMap<string, SourceFileRef>;
  listed: ReadonlyMap<string, string>;
}

/**
 * Finds the known ones among the files of markets. None counts as unchanged when the known ones were checked by other
 * rules, or when two files have the same rows, since their ids are then the same too. Throws UNREAD_FILES when none may
 * count as unchanged, but some were not fetched.
 */
function findUnchanged(
  { files }: ListedSource,
  {
    known,
    rowDigests,
    contents,
    unfetched,
  }: Pick<FileContents, "contents" | "unfetched"> & Pick<SourcesOptions, "known"> & { rowDigests: string },
): FileContents["unchanged"] {
  const byHash = new Map(known?.files.map((file) => [file.hash, file]));
  const hashes = files.flatMap((file) => contents.get(file)?.hash ?? []);
  const all = [...hashes, ...[...unfetched.values()].map(({ hash }) => hash)];
  // Files without rows share no ids, and often have the same bytes.
  const filled = all.filter((hash) => byHash.get(hash)?.rows !== 0);
  const comparable = known?.rowDigests === rowDigests && new Set(filled).size === filled.length;
  if (!comparable && unfetched.size > 0)
    throw new Fault("UNREAD_FILES", "files that were not fetched must be read");
  if (!comparable) return new Map();
  return new Map(
    files.flatMap((file) => {
      const same = byHash.get(contents.get(file)?.hash ?? "");
      return same ? [[file, same]] : [];
    }),
  );
}

async function checkedSources(
  instance: DuckDBInstance,
  [allMarkets, allScores]: readonly [ListedSource, ListedSource],
  content: FileContents,
  limits: { megabytes: number; threads: number | undefined; checked: boolean },
): Promise<Omit<Sources, "close" | "rowDigests">> {
  const { unchanged, unfetched } = content;
  const read = allMarkets.files.filter((file) => !unchanged.has(file));
  const [markets, scores] = await bothOf(
    [
      { source: allMarkets, files: read },
      { source: allScores, files: allScores.files },
    ],
    ({ source, files }) => groupSource(instance, source, files),
  );
  const memoryWarnings = await limitMemory(instance, [...read, ...allScores.files], limits);
  const elsewhere = [...unchanged.values(), ...unfetched.values()].some(({ rows }) => rows > 0);
  const [marketCount] = await bothOf(
    [
      { source: markets, elsewhere },
      { source: scores, elsewhere: false },
    ],
    ({ source, elsewhere }) => (limits.checked ? countRows(source) : checkRows(source, elsewhere)),
  );
  const files = marketsFiles(markets, content);
  return {
    files,
    scoreFiles: allScores.files.map((file) => ({ name: file.name, ...contentOf(file, content) })),
    marketCount,
    warnings: [...extraWarning(markets, files), ...extraWarning(scores, scores.groups), ...memoryWarnings],
    markets: (known, range) => readMarkets(markets, known, range),
    keys: () => readKeys(markets),
    cutPoints: (parts) => readCutPoints(markets, marketCount, parts),
    scores: () => readScores(scores),
  };
}

/** Files that are here and could be hashed, and those that were not fetched. */
function namedContents(
  files: readonly SourceFile[],
  { contents }: HashedFiles,
  unfetched: ReadonlyMap<string, SourceFileRef>,
): NamedContent[] {
  const here = files.flatMap((file) => {
    const content = contents.get(file);
    return content ? [{ name: file.name, ...content }] : [];
  });
  return [...here, ...[...unfetched].map(([name, { hash, bytes }]) => ({ name, hash, bytes }))];
}

function requirePinned({ files }: PinnedFiles, found: readonly NamedContent[]): void {
  const [before, now] = [files, found].map((all) => new Map(all.map(({ name, hash }) => [name, hash])));
  const refusals = new RefusalList();
  for (const name of new Set([...before!.keys(), ...now!.keys()]))
    if (before!.get(name) !== now!.get(name)) refusals.add({ file: name, rule: unplannedRule });
  refusals.throwIfAny();
}

const unplannedRule = "is not as it was when the run was planned; plan another run";

/** Implements Sources.files: the files of the directory in their order, and then those that were not fetched. */
function marketsFiles({ files, groups }: OpenSource, content: FileContents): MarketsFile[] {
  const { unchanged, unfetched, listed } = content;
  const groupOf = new Map(groups.flatMap((group) => group.files.map((file) => [file, group])));
  const local = files.map((file): MarketsFile => {
    const extra = (groupOf.get(file) ?? unchanged.get(file))?.extra ?? [];
    const tag = listed.get(file.name);
    return {
      name: file.name,
      ...contentOf(file, content),
      extra: [...extra],
      ...(tag !== undefined && { listed: tag }),
      unchanged: unchanged.has(file),
    };
  });
  const others = [...unfetched].map(([name, { rows: _, ...file }]) => ({ ...file, name, unchanged: true }));
  return [...local, ...others];
}

/** Runs the same step for both sources, one after the other, and throws one SourceRefusal for the faults of both. */
async function bothOf<From, To>(
  [first, second]: readonly [From, From],
  step: (from: From) => Promise<To>,
): Promise<[To, To]> {
  const refusals = new RefusalList();
  const results = [await refusals.gather(() => step(first)), await refusals.gather(() => step(second))];
  refusals.throwIfAny();
  return results as [To, To];
}

/** Throws SourceRefusal when the source has no files. */
export async function listSource(
  path: string,
  table: SourceTable,
  { mirrorOf, script }: SourcesOptions,
): Promise<ListedSource> {
  const directory = { path: resolve(path), mirrorOf, script };
  return { directory, table, ...(await listSourceFiles(directory, table.name)) };
}

/** A sentence for the operator, if names were passed over, here or in what the directory mirrors. */
export function passedWarningOf(listed: readonly ListedSource[], { passed = [] }: SourcesOptions): string[] {
  return passedWarning([...listed.flatMap((source) => source.passed), ...passed]);
}

/** Only the files in `read`. Throws SourceRefusal when their columns do not match. */
export async function groupSource(
  instance: DuckDBInstance,
  listed: ListedSource,
  read: readonly SourceFile[],
): Promise<OpenSource> {
  const groups = await withConnection(instance, (connection) => groupFiles(connection, listed.table, read));
  return { ...listed, groups, instance };
}

/** Sets DuckDB's memory and threads for these files. Returns sentences for the operator. */
export function limitMemory(
  instance: DuckDBInstance,
  files: readonly SourceFile[],
  limits: { megabytes: number; threads: number | undefined },
): Promise<readonly string[]> {
  return withConnection(instance, async (connection) => {
    const { megabytes, threads, warnings } = await planMemory(connection, files, limits);
    await connection.run(`SET GLOBAL memory_limit = '${megabytes}MB'`);
    await connection.run(`SET GLOBAL threads = ${threads}`);
    return warnings;
  });
}

/**
 * Counts the rows in the files that are read. Throws SourceRefusal when there are none, here or `elsewhere`, or when
 * two share a key.
 */
async function checkRows(source: OpenSource, elsewhere: boolean): Promise<number> {
  const rows = elsewhere ? await countRows(source) : await countSomeRows(source);
  await refuseDuplicates(source);
  return rows;
}

/** Counts the rows in the files that are read. Throws SourceRefusal when there are none. */
export async function countSomeRows(source: OpenSource): Promise<number> {
  const { files, table } = source;
  const rows = await countRows(source);
  if (rows > 0) return rows;
  throw new SourceRefusal([{ file: nameOfAll(files, table.name), rule: "has no rows" }]);
}

/** A sentence for the operator, if there are columns that the contract does not name. */
export function extraWarning(
  { table }: OpenSource,
  parts: readonly { extra: readonly string[] }[],
): string[] {
  const extra = new Set(parts.flatMap((part) => part.extra));
  if (extra.size === 0) return [];
  const names = [...extra].sort().join(", ");
  return [`${table.name}: ignored columns and members that the contract does not name: ${names}`];
}
