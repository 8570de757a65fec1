import { mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { DuckDBInstance } from "@duckdb/node-api";
import { Fault } from "../../schemas/errors.ts";
import type { SourceFileRef } from "../../schemas/store/stored-objects.ts";
import { clockTolerance } from "../store/log/commits.ts";
import { marketsTable, protocolScoresTable, type SourceTable } from "./contract/source-tables.ts";
import { limitMemory, openSession, scalar, selectFromAll, withConnection } from "./duckdb/duckdb.ts";
import { digestKind, readCutPoints, readKeys, readMarkets } from "./duckdb/markets.ts";
import {
  countRows,
  type ListedSource,
  type OpenSource,
  readSource,
  refuseBrokenRows,
  refuseDuplicates,
} from "./duckdb/read-source.ts";
import { readScores } from "./duckdb/scores.ts";
import { groupFiles } from "./files/file-groups.ts";
import {
  type Contents,
  contentOf,
  hashContents,
  listSourceFiles,
  nameOfAll,
  passedWarning,
  refuseDifferences,
  type SourceFile,
  type SourceFolder,
} from "./files/source-files.ts";
import {
  type KnownFiles,
  type MarketsFile,
  type NamedContent,
  type PinnedFiles,
  RefusalList,
  SourceRefusal,
  type Sources,
} from "./sources.ts";

export interface SourcesOptions {
  /** The start of the run. Rows may be up to five minutes later. */
  now: Date;
  /** The files of the current snapshot. Those that are unchanged are not read. */
  knownFiles?: KnownFiles | undefined;
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
 * Opens the Parquet sources in a folder, which is closed with them. Throws SourceRefusal when files or columns are
 * missing or do not match the contract, when a source has no rows, or when keys repeat. Values are checked later, while
 * they are read. Throws UNREAD_FILES when files are not read and their rows are not known.
 */
export async function openSources(folder: SourceFolder, options: SourcesOptions): Promise<Sources> {
  const { knownFiles, pinned } = options;
  await using opened = new AsyncDisposableStack();
  const { listed, instance } = await openListed(folder, options, opened);
  const rowDigests = await withConnection(instance, digestKind);
  const files = listed.flatMap((source) => source.files);
  const contents = await hashContents(files, filesOfOthers(options));
  if (pinned) requirePinned(pinned, folder, contents);
  const comparable = knownFiles?.rowDigests === rowDigests ? knownFiles.files : undefined;
  const unchanged = findUnchanged(listed[0]!, contents, comparable);
  const isRead = (file: SourceFile) => !unchanged.has(file);
  const [markets, scores] = (await inTurn(listed, (source) =>
    groupSource(instance, source, source.files.filter(isRead)),
  )) as Pair;
  const limits = { ...options, isCompared: comparable !== undefined };
  const memoryWarnings = await limitMemory(instance, files.filter(isRead), limits);
  const unread = [...unchanged.values(), ...(folder.unfetched?.values() ?? [])];
  const elsewhere = unread.some(({ rows }) => rows > 0);
  const [marketCount = 0] = await inTurn([markets, scores], async (source) => {
    if (pinned) return countRows(source);
    const rows = await countSomeRows(source, source === markets && elsewhere);
    await refuseDuplicates(source);
    return rows;
  });
  const marketsFiles = filesOfMarkets(markets, contents, unchanged);
  const ends = opened.move();
  return {
    files: marketsFiles,
    scoreFiles: scores.files.map((file) => ({ name: file.name, ...contentOf(file, contents) })),
    marketCount,
    warnings: [
      ...passedOver(folder, listed),
      ...extraWarning(markets, marketsFiles),
      ...extraWarning(scores, scores.groups),
      ...memoryWarnings,
    ],
    markets: (rows, range) => readMarkets(markets, rows, range),
    keys: () => readKeys(markets),
    rowDigests,
    cutPoints: (parts) => readCutPoints(markets, marketCount, parts),
    scores: () => readScores(scores),
    close: () => ends.disposeAsync(),
  };
}

/** What sound sources hold. */
export type Inspection = Awaited<ReturnType<typeof inspectSources>>;

/**
 * Looks for everything that a publish would refuse, except by the guards, which compare with the current snapshot.
 * Throws one SourceRefusal for all of it, where a publish stops at the first kind of fault. `warn` is called with each
 * warning before rows are read, which may take more memory than there is.
 */
export async function inspectSources(
  folder: SourceFolder,
  options: SourcesOptions & { warn?: (warning: string) => void },
) {
  await using opened = new AsyncDisposableStack();
  const refusals = new RefusalList();
  const { listed, instance } = await openListed(folder, options, opened, refusals);
  const sources = await inTurn(listed, (source) => groupSource(instance, source, source.files), refusals);
  const files = sources.flatMap((source) => source.files);
  const memoryWarnings = files.length > 0 ? await limitMemory(instance, files, options) : [];
  const warnings = [
    ...passedOver(folder, listed),
    ...sources.flatMap((source) => extraWarning(source, source.groups)),
    ...memoryWarnings,
  ];
  for (const warning of warnings) options.warn?.(warning);
  for (const source of sources) await inspectRows(source, refusals);
  refusals.throwIfAny();
  const [markets, scores] = sources as Pair;
  return {
    markets: await countSomeRows(markets),
    protocols: await countProtocols(scores),
    /** Rows of protocol_scores. */
    scores: await countSomeRows(scores),
    warnings,
  };
}

type Pair = [markets: OpenSource, scores: OpenSource];

/**
 * Runs the same step for each source, one after the other. Throws one SourceRefusal for the faults of all. With
 * `gathered` these are added there instead, and sources that have any are left out.
 */
async function inTurn<From, To>(
  all: readonly From[],
  step: (from: From) => Promise<To>,
  gathered?: RefusalList,
): Promise<To[]> {
  const refusals = gathered ?? new RefusalList();
  const results: To[] = [];
  for (const one of all) {
    const result = await refusals.gather(() => step(one));
    if (result !== undefined) results.push(result);
  }
  if (!gathered) refusals.throwIfAny();
  return results;
}

/** Lists the files of both sources, and opens a DuckDB that can read only these. `opened` closes it and the folder. */
async function openListed(
  folder: SourceFolder,
  { now, temporaryDirectory, memoryMegabytes }: SourcesOptions,
  opened: AsyncDisposableStack,
  gathered?: RefusalList,
) {
  opened.defer(async () => folder.close?.());
  const latest = new Date(now.getTime() + clockTolerance);
  const list = async (table: SourceTable): Promise<ListedSource> => ({
    folder,
    table,
    ...(await listSourceFiles(folder, table.name)),
  });
  const listed = await inTurn([marketsTable(latest), protocolScoresTable(latest)], list, gathered);
  // DuckDB's spill files have fixed names, so two processes in one folder would overwrite each other's.
  const spill = await mkdtemp(join(resolve(temporaryDirectory), "duckdb-"));
  opened.defer(() => rm(spill, { recursive: true, force: true }));
  const instance = await openSession({
    memoryMegabytes,
    temporaryDirectory: spill,
    ordered: false,
    allowedPaths: listed.flatMap(({ files }) => files.map(({ path }) => path)),
  });
  opened.defer(() => instance.closeSync());
  return { listed, instance };
}

/**
 * Files that other parts of a run read, by name. The part that reads a file hashes it, and the plan says what is in it.
 * If each part hashed all files, that would be a fortieth of the work of a run in twelve parts.
 */
function filesOfOthers({ knownFiles, pinned }: SourcesOptions): Map<string, NamedContent> {
  const unread = new Set(knownFiles?.files.map(({ hash }) => hash));
  return new Map(pinned?.files.flatMap((file) => (unread.has(file.hash) ? [[file.name, file]] : [])));
}

/** Compares files that are here and could be hashed, and those that were not fetched. */
function requirePinned(
  pinned: PinnedFiles,
  { unfetched = new Map() }: SourceFolder,
  contents: Contents,
): void {
  const rule = "is not as it was when the run was planned; plan another run";
  const before = pinned.files.map(({ name, hash }) => ({ name, fingerprint: hash }));
  const here = [...contents].flatMap(([{ name }, { hash }]) =>
    hash === undefined ? [] : [{ name, fingerprint: hash }],
  );
  const elsewhere = [...unfetched].map(([name, { hash }]) => ({ name, fingerprint: hash }));
  refuseDifferences(before, [...here, ...elsewhere], { changed: rule, added: rule });
}

/**
 * Finds the known ones among the files of markets. None counts as unchanged when `knownFiles` is undefined, because
 * other rules were in force, or when two files have the same rows, since their ids are then the same too.
 */
function findUnchanged(
  { folder: { unfetched = new Map() }, files }: ListedSource,
  contents: Contents,
  knownFiles: KnownFiles["files"] | undefined,
): Map<SourceFile, SourceFileRef> {
  const byHash = new Map(knownFiles?.map((file) => [file.hash, file]));
  const hashes = files.flatMap((file) => contents.get(file)?.hash ?? []);
  const all = [...hashes, ...[...unfetched.values()].map(({ hash }) => hash)];
  // Files without rows share no ids, and often have the same bytes.
  const filled = all.filter((hash) => byHash.get(hash)?.rows !== 0);
  const comparable = knownFiles !== undefined && new Set(filled).size === filled.length;
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

/** Only the files in `read`. */
async function groupSource(
  instance: DuckDBInstance,
  listed: ListedSource,
  read: readonly SourceFile[],
): Promise<OpenSource> {
  const groups = await withConnection(instance, (connection) => groupFiles(connection, listed.table, read));
  return { ...listed, groups, instance };
}

/** Counts the rows in the files that are read. Throws SourceRefusal when there are none, here or `elsewhere`. */
async function countSomeRows(source: OpenSource, elsewhere = false): Promise<number> {
  const { files, table } = source;
  const rows = await countRows(source);
  if (rows > 0 || elsewhere) return rows;
  throw new SourceRefusal([{ file: nameOfAll(files, table.name), rule: "has no rows" }]);
}

async function inspectRows(source: OpenSource, refusals: RefusalList): Promise<void> {
  for (const look of [
    () => countSomeRows(source),
    () => refuseBrokenRows(source),
    () => refuseDuplicates(source),
  ]) {
    try {
      await readSource<unknown>(source, look);
    } catch (error) {
      if (!(error instanceof SourceRefusal)) throw error;
      refusals.addFrom(error);
      // A file that cannot be read, or has changed, would be named by each step.
      if (error.refusals.some(({ row }) => row === undefined)) return;
    }
  }
}

function countProtocols(scores: OpenSource): Promise<number> {
  const slugs = selectFromAll(scores.groups, "slug");
  return readSource(scores, (connection) =>
    scalar(connection, `SELECT count(DISTINCT slug) FROM (${slugs})`),
  );
}

/** Implements Sources.files: the files of the folder in their order, and then those that were not fetched. */
function filesOfMarkets(
  { folder: { unfetched = new Map(), listed }, files, groups }: OpenSource,
  contents: Contents,
  unchanged: ReadonlyMap<SourceFile, SourceFileRef>,
): MarketsFile[] {
  const groupOf = new Map(groups.flatMap((group) => group.files.map((file) => [file, group])));
  const local = files.map((file): MarketsFile => {
    const extra = (groupOf.get(file) ?? unchanged.get(file))?.extra ?? [];
    const tag = listed?.get(file.name);
    return {
      name: file.name,
      ...contentOf(file, contents),
      extra: [...extra],
      ...(tag !== undefined && { listed: tag }),
      unchanged: unchanged.has(file),
    };
  });
  const others = [...unfetched].map(([name, { rows: _, ...file }]) => ({ ...file, name, unchanged: true }));
  return [...local, ...others];
}

/** A sentence for the operator, if names were passed over, here or in what the folder mirrors. */
function passedOver({ passed = [] }: SourceFolder, listed: readonly ListedSource[]): string[] {
  return passedWarning([...listed.flatMap((source) => source.passed), ...passed]);
}

/** A sentence for the operator, if there are columns that the contract does not name. */
function extraWarning({ table }: OpenSource, parts: readonly { extra: readonly string[] }[]): string[] {
  const extra = new Set(parts.flatMap((part) => part.extra));
  if (extra.size === 0) return [];
  const names = [...extra].sort().join(", ");
  return [`${table.name}: ignored columns and members that the contract does not name: ${names}`];
}
