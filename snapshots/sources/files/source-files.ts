import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { hasCode, ifPresent } from "../../store/errors.ts";
import { RefusalList, SourceRefusal } from "../contract/refusals.ts";
import type { SourceTable } from "../contract/table-schema.ts";
import { isPassed, SourceNames } from "./source-names.ts";

export interface SourceDirectory {
  path: string;
  /** The address that the directory mirrors. Its files are then hard links, whose number changes. */
  mirrorOf: string | undefined;
  /** The script whose tables the directory's files hold; messages name these instead. */
  script?: string | undefined;
}

export interface SourceFile {
  /** The absolute path without symbolic links. DuckDB is allowed to read no other paths. */
  path: string;
  /** The path relative to the sources' directory, with `/`; for messages. */
  name: string;
  /**
   * Size, times and inode, so that replacing, writing and touching the file all show. In a mirror it leaves out ctime,
   * which changes with the number of hard links.
   */
  fingerprint: string;
}

/** `passed` has the names that are passed over. */
export interface ListedFiles {
  files: SourceFile[];
  passed: readonly string[];
}

/**
 * The files of one source: `<name>.parquet`, or every `*.parquet` below `<name>/`, by name. Throws SourceRefusal when
 * these are not files of a source, or there are none. A mirror's files were judged when they were listed.
 */
export async function listSourceFiles(
  directory: SourceDirectory,
  name: SourceTable["name"],
): Promise<ListedFiles> {
  const { path: root, mirrorOf, script } = directory;
  const names = new SourceNames(name);
  const single = `${name}.parquet`;
  const info = await statOf(root, join(root, single));
  if (info && !info.isDirectory()) names.add(single);
  for (const folder of [...(info?.isDirectory() ? [single] : []), name])
    for (const found of await namesBelow(root, folder)) names.add(found);
  if (mirrorOf === undefined) await names.judge(root, () => namesIn(root));
  const files = await Promise.all(names.files.map((name) => sourceFile(directory, name)));
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

async function sourceFile(directory: SourceDirectory, name: string): Promise<SourceFile> {
  const path = join(directory.path, name);
  const found = await fingerprint(directory, path);
  if (found === undefined) throw refusalOf(directory.path, path, "is a link to nothing, or gone");
  return { path: await realpath(path), name, fingerprint: found };
}

const nameOf = (root: string, path: string) => relative(root, path).split(sep).join("/");

function refusalOf(root: string, path: string, rule: string): SourceRefusal {
  return new SourceRefusal([{ file: nameOf(root, path), rule }]);
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
  if (above.includes(real)) throw refusalOf(root, directory, "is a link to a folder that it lies in");
  const below = await Promise.all(
    names.sort().map(async (entry) => {
      const path = `${name}/${entry}`;
      const info = await statOf(root, join(root, path));
      if (!info?.isDirectory()) return [path];
      return isPassed(entry) ? [`${path}/`] : namesBelow(root, path, [...above, real]);
    }),
  );
  return [`${name}/`, ...below.flat()];
}

/** Throws SourceRefusal when a file of a source has been changed, removed or added since it was listed. */
export async function refuseChanges(
  directory: SourceDirectory,
  name: SourceTable["name"],
  before: readonly SourceFile[],
): Promise<void> {
  const { files } = await listSourceFiles(directory, name);
  refuseDifferences(fingerprints(before), fingerprints(files));
}

const fingerprints = (files: readonly SourceFile[]) =>
  new Map(files.map(({ name, fingerprint }) => [name, fingerprint]));

async function fingerprint(
  { path: root, mirrorOf }: SourceDirectory,
  path: string,
): Promise<string | undefined> {
  const info = await statOf(root, path);
  // Opening a pipe would wait for a writer, possibly for ever.
  if (info && !info.isFile()) throw refusalOf(root, path, "is not a regular file");
  const changed = mirrorOf === undefined ? info?.ctimeNs : "linked";
  return info && [info.size, info.mtimeNs, changed, info.ino, info.dev].join("-");
}

/** Follows links; undefined when nothing is there. */
async function statOf(root: string, path: string) {
  try {
    return await ifPresent(stat(path, { bigint: true }));
  } catch (error) {
    throw hasCode(error, "ELOOP") ? refusalOf(root, path, "is a link that leads back to itself") : error;
  }
}

/** The rule that a file breaks when its content is no longer the listed one. */
export const changedRule = "changed while it was read";
const addedRule = "appeared while the others were read";

/** Whether every refused file has merely changed meanwhile. */
export function namesOnlyChanges({ refusals }: SourceRefusal): boolean {
  return refusals.every(({ rule }) => rule === changedRule || rule === addedRule);
}

/**
 * Compares two listings of files, given as fingerprints by name. Throws SourceRefusal naming the files that were
 * changed, removed or added in between.
 */
export function refuseDifferences(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  const refusals = new RefusalList();
  for (const [file, fingerprint] of before) {
    if (after.get(file) !== fingerprint) refusals.add({ file, rule: changedRule });
  }
  for (const file of after.keys()) {
    if (!before.has(file)) refusals.add({ file, rule: addedRule });
  }
  refusals.throwIfAny();
}
