import { createHash } from "node:crypto";
import { open, readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ObjectRef, SourceFileRef } from "../../../schemas/store/stored-objects.ts";
import { hasCode, ifPresent } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import type { SourceTable } from "../contract/source-tables.ts";
import { RefusalList, SourceRefusal } from "../sources.ts";

/** A local folder with sources, and what is known of where they came from. */
export interface SourceFolder {
  path: string;
  /** The name of the script whose tables its files hold; messages name these instead. */
  script?: string;
  /**
   * Digests of the addresses, ETags and sizes of the files, by name, if the folder mirrors an address (mirror.ts). Its
   * files are then hard links, whose number changes.
   */
  listed?: ReadonlyMap<string, string>;
  /** Names of files and folders at that address that were passed over. */
  passed?: readonly string[];
  /** Known files of markets there, by name. They were not fetched. */
  unfetched?: ReadonlyMap<string, SourceFileRef>;
  /** Removes a folder that was made for this run. */
  close?(): Promise<void>;
}

export interface SourceFile {
  /** The absolute path without symbolic links. DuckDB is allowed to read no other paths. */
  path: string;
  /** The path relative to the sources' folder, with `/`; for messages. */
  name: string;
  /**
   * Size, times and inode, so that replacing, writing and touching the file all show. In a mirror it leaves out ctime,
   * which changes with the number of hard links.
   */
  fingerprint: string;
}

/**
 * The files of one source: `<name>.parquet`, or every `*.parquet` below `<name>/`, by name. Throws SourceRefusal when
 * these are not files of a source, or there are none. A mirror's files were judged when they were listed. `passed` has
 * the names that are passed over.
 */
export async function listSourceFiles(folder: SourceFolder, name: SourceTable["name"]) {
  const { path: root, listed, script } = folder;
  const names = new SourceNames(name);
  const single = `${name}.parquet`;
  const info = await statOf(root, single);
  if (info && !info.isDirectory()) names.add(single);
  for (const below of [...(info?.isDirectory() ? [single] : []), name])
    for (const file of await namesBelow(root, below)) names.add(file);
  if (!listed) await names.judge(root, () => namesIn(root));
  const files = await Promise.all(names.files.map((name) => sourceFile(folder, name)));
  const passed = [...names.passed];
  if (script === undefined) return { files, passed };
  return { files: files.map((file) => ({ ...file, name: tableOfScript(script, name) })), passed };
}

/** None when there is no such folder. Names of folders end with `/`. */
async function namesIn(folder: string): Promise<string[]> {
  const entries = (await ifPresent(readdir(folder, { withFileTypes: true }))) ?? [];
  return entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
}

export function nameOfAll(files: readonly { name: string }[], source: string): string {
  return files.length === 1 ? files[0]!.name : `${source}/`;
}

export function tableOfScript(script: string, table: string): string {
  return `${script} (${table})`;
}

async function sourceFile({ path: root, listed }: SourceFolder, name: string): Promise<SourceFile> {
  const info = await statOf(root, name);
  if (!info) throw new SourceRefusal([{ file: name, rule: "is a link to nothing, or gone" }]);
  // Opening a pipe would wait for a writer, possibly for ever.
  if (!info.isFile()) throw new SourceRefusal([{ file: name, rule: "is not a regular file" }]);
  const changed = listed ? "linked" : info.ctimeNs;
  const fingerprint = [info.size, info.mtimeNs, changed, info.ino, info.dev].join("-");
  return { path: await realpath(join(root, name)), name, fingerprint };
}

/**
 * The sorted names of a folder and of what is below it, following symbolic links; none when it does not exist. Does not
 * look into folders that are passed over. Names of folders end with `/`.
 */
async function namesBelow(root: string, name: string, above: readonly string[] = []): Promise<string[]> {
  const directory = join(root, name);
  const names = await ifPresent(readdir(directory));
  if (!names) return [];
  const real = await realpath(directory);
  if (above.includes(real))
    throw new SourceRefusal([{ file: name, rule: "is a link to a folder that it lies in" }]);
  const below = await Promise.all(
    names.sort().map(async (entry) => {
      const path = `${name}/${entry}`;
      const info = await statOf(root, path);
      if (!info?.isDirectory()) return [path];
      return isPassed(entry) ? [`${path}/`] : namesBelow(root, path, [...above, real]);
    }),
  );
  return [`${name}/`, ...below.flat()];
}

/** Follows links; undefined when nothing is there. */
async function statOf(root: string, name: string) {
  try {
    return await ifPresent(stat(join(root, name), { bigint: true }));
  } catch (error) {
    if (!hasCode(error, "ELOOP")) throw error;
    throw new SourceRefusal([{ file: name, rule: "is a link that leads back to itself" }]);
  }
}

export const changedRule = "changed while it was read";
const addedRule = "appeared while the others were read";

/** Whether every refused file has merely changed meanwhile. */
export function namesOnlyChanges({ refusals }: SourceRefusal): boolean {
  return refusals.every(({ rule }) => rule === changedRule || rule === addedRule);
}

type Fingerprinted = Pick<SourceFile, "name" | "fingerprint">;

/**
 * Throws SourceRefusal naming the files that were changed, removed or added between two listings. `changed` is the rule
 * that the former break, `added` that of the latter.
 */
export function refuseDifferences(
  before: readonly Fingerprinted[],
  after: readonly Fingerprinted[],
  { changed, added } = { changed: changedRule, added: addedRule },
): void {
  const refusals = new RefusalList();
  const [old, fresh] = [before, after].map(
    (files) => new Map(files.map((file) => [file.name, file.fingerprint])),
  );
  for (const { name, fingerprint } of before)
    if (fresh!.get(name) !== fingerprint) refusals.add({ file: name, rule: changed });
  for (const { name } of after) if (!old!.has(name)) refusals.add({ file: name, rule: added });
  refusals.throwIfAny();
}

// Judges the sources by names alone, so that folders and S3 give the same answer.

/**
 * Table formats by what stands beside their data files: patterns of names below the table's folder. Such a folder also
 * holds rows that were deleted, replaced or never committed; only the log tells which files are live.
 */
const formats: readonly { format: string; log: string; way?: string }[] = [
  { format: "Delta Lake", log: "_delta_log/", way: "DuckDB's extension delta reads it" },
  {
    format: "Apache Iceberg",
    log: "metadata/(?:version-hint\\.text|[^/]*\\.metadata\\.json(?:\\.gz)?)$",
    way: "DuckDB's extension iceberg reads it",
  },
  { format: "Apache Hudi", log: "\\.hoodie/" },
  { format: "Apache Paimon", log: "(?:snapshot/(?:LATEST|EARLIEST|snapshot-\\d+)|schema/schema-\\d+)$" },
  { format: "Lance", log: "_versions/" },
  { format: "Spark's streaming sink", log: "_spark_metadata/" },
  {
    format: "DuckLake",
    log: "ducklake-[0-9a-f-]{36}(?:-delete)?\\.parquet$",
    way: "DuckDB's extension ducklake reads it",
  },
];
const anyLog = new RegExp(`^(.*?/)(?:${formats.map(({ log }) => `(${log})`).join("|")})`);

/** Names that readers of data lakes pass over: of hidden files, logs, and files that are not finished. */
const unread = /^(?:_|\.(?!\.?$)|tmp_.*\.parquet$)/i;
/** Parquet files with other endings than the one that is read. */
const otherEnding = /\.(?:parquet|parq|pq)$/i;

const shownNames = 5;

/** The names of a source, as a listing brings them one by one. */
export class SourceNames {
  /** Files to read, in the order of the listing. */
  readonly files: string[] = [];
  /** Files and folders that are passed over. Names of folders end with `/`. */
  readonly passed = new Set<string>();
  readonly #source: SourceTable["name"];
  /** Folders with a log, by name. */
  readonly #tables = new Map<string, (typeof formats)[number]>();
  readonly #misnamed: string[] = [];
  readonly #others: string[] = [];
  #isFolder = false;

  constructor(source: SourceTable["name"]) {
    this.#source = source;
  }

  /** The name is relative to the folder of the sources. Returns whether it is that of a file to read. */
  add(name: string): boolean {
    const single = `${this.#source}.parquet`;
    if (name.startsWith(`${single}/`)) this.#isFolder = true;
    else if (name !== single && !name.startsWith(`${this.#source}/`)) return false;
    const [, folder, ...groups] = anyLog.exec(name) ?? [];
    const passed = passedPart(folder ?? name);
    if (folder !== undefined && passed === undefined)
      this.#tables.set(folder, formats[groups.findIndex((part) => part !== undefined)]!);
    else if (passed !== undefined && /\/$|\.parquet$/i.test(passed)) this.passed.add(passed);
    else if (passed === undefined && name.endsWith(".parquet")) return this.files.push(name) > 0;
    else if (passed === undefined && otherEnding.test(name)) this.#misnamed.push(name);
    else if (this.#others.length < shownNames && name !== `${this.#source}/`) this.#others.push(name);
    return false;
  }

  /**
   * Throws SourceRefusal when the names are not those of a source. Where the source is missing, `names` lists what else
   * is at `location`.
   */
  async judge(location: string, names: () => Promise<readonly string[]>): Promise<void> {
    const [single, folder] = [`${this.#source}.parquet`, `${this.#source}/`];
    const refusals = new RefusalList();
    for (const [file, { format, way = "a program that knows the format can" }] of this.#tables) {
      const rule =
        `is a table of ${format}, whose log says which of its files are live; ` +
        `list those in a script (${way}; .github/deploy/SOURCES.md, "Tables with a log")`;
      refusals.add({ file, rule });
    }
    if (this.#tables.size === 0) {
      const below = this.files.filter((name) => name !== single).length;
      if (this.#isFolder) refusals.add({ file: `${single}/`, rule: `is a folder; name it ${folder}` });
      else if (below > 0 && below < this.files.length)
        refusals.add({
          file: single,
          rule: `stands beside ${folder}, which holds Parquet files too; keep one of them`,
        });
      const rule = "has another ending than .parquet, and is not read; rename it, or move it elsewhere";
      for (const file of this.#misnamed) refusals.add({ file, rule });
      const none = this.files.length + this.#misnamed.length === 0 && !this.#isFolder;
      if (none) {
        const here = [...this.passed, ...this.#others];
        const there = summary(here.length > 0 ? here : await names());
        const missing = `is missing, and there is no Parquet file below ${folder} in ${location}`;
        refusals.add({ file: single, rule: there ? `${missing}; there is ${there}` : missing });
      }
    }
    refusals.throwIfAny();
  }
}

/** The part of a name, up to the file or folder for which it is passed over. */
function passedPart(name: string): string | undefined {
  const parts = name.split("/");
  const at = parts.findIndex((part, index) => index > 0 && isPassed(part));
  return at < 0 ? undefined : parts.slice(0, at + 1).join("/") + (at < parts.length - 1 ? "/" : "");
}

const isPassed = (name: string) => unread.test(name);

/** A sentence for the operator, if any names were passed over. */
export function passedWarning(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const what = names.length === 1 ? "1 file or folder" : `${names.length} files and folders`;
  return [`passed over ${what} named _*, .* or tmp_*.parquet: ${summary(names)}`];
}

function summary(names: readonly string[]): string {
  const more = names.length > shownNames ? ", …" : "";
  return names.toSorted().slice(0, shownNames).join(", ") + more;
}

/** While one file is hashed, others are read. */
const concurrency = 4;
const partBytes = 1024 * 1024;

/** The content of each file, or the error for which it has none: mostly, reading its rows fails too, and says more. */
export type Contents = ReadonlyMap<SourceFile, ObjectRef | { hash?: undefined; failure: unknown }>;

/** Does not hash files whose content is known by their name, as long as they have as many bytes. */
export async function hashContents(
  files: readonly SourceFile[],
  byName: ReadonlyMap<string, ObjectRef>,
): Promise<Contents> {
  // A new buffer for each of many small files would cost more than reading them does.
  const buffers: Buffer[] = [];
  const hashOne = async (file: SourceFile): Promise<ObjectRef> => {
    const hash = createHash("sha256");
    await using handle = await open(file.path);
    const content = byName.get(file.name);
    if (content && (await handle.stat()).size === content.bytes)
      return { hash: content.hash, bytes: content.bytes };
    const part = buffers.pop() ?? Buffer.allocUnsafeSlow(partBytes);
    let bytes = 0;
    for (let read = -1; read !== 0; bytes += read) {
      read = (await handle.read(part)).bytesRead;
      hash.update(part.subarray(0, read));
    }
    buffers.push(part);
    return { hash: hash.digest("hex"), bytes };
  };
  const read = (file: SourceFile) => hashOne(file).catch((failure: unknown) => ({ failure }));
  const contents = await inParallel(files, read, concurrency);
  return new Map(files.map((file, index) => [file, contents[index]!]));
}

/** Files whose columns cannot be read were refused before, so a file without a content is unexpected here. */
export function contentOf(file: SourceFile, contents: Contents): ObjectRef {
  const content = contents.get(file)!;
  if (content.hash !== undefined) return content;
  throw new Error(`${file.name}: its columns can be read, but not its bytes`, { cause: content.failure });
}
