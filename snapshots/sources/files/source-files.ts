import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { hasCode, ifPresent } from "../../store/errors.ts";
import { RefusalList, SourceRefusal } from "../contract/refusals.ts";

/** The directory of the sources. */
export interface SourceDirectory {
  path: string;
  /** The address that the directory mirrors. Its files are then hard links, whose number changes. */
  mirrorOf: string | undefined;
  /** The script whose tables the directory's files hold; messages name these instead. */
  script?: string | undefined;
}

/** A file of the sources. */
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

/**
 * The files of one source, sorted by name: `<name>.parquet`, or every `*.parquet` below `<name>/`. `unfetched` names
 * files that belong to the source as well. Throws SourceRefusal when there is neither, or both.
 */
export async function listSourceFiles(
  directory: SourceDirectory,
  name: string,
  unfetched: readonly string[] = [],
): Promise<SourceFile[]> {
  const { path: root, mirrorOf = root } = directory;
  const single = await fingerprint(directory, join(root, `${name}.parquet`));
  const below = await filesBelow(root, join(root, name));
  const refuse = (rule: string) => new SourceRefusal([{ file: `${name}.parquet`, rule }]);
  const alone = single !== undefined || unfetched.includes(`${name}.parquet`);
  if (alone && below.length + unfetched.length > (single === undefined ? 1 : 0)) {
    throw refuse(`stands beside ${name}/, which holds Parquet files too; keep one of them`);
  }
  const paths = single === undefined ? below : [join(root, `${name}.parquet`)];
  if (paths.length + unfetched.length === 0)
    throw refuse(`is missing, and there is no Parquet file below ${name}/ in ${mirrorOf}`);
  const files = await Promise.all(paths.map((path) => sourceFile(directory, path)));
  const { script } = directory;
  return script === undefined ? files : files.map((file) => ({ ...file, name: tableOfScript(script, name) }));
}

/** How messages name all files of a source. */
export function nameOfAll(files: readonly { name: string }[], source: string): string {
  return files.length === 1 ? files[0]!.name : `${source}/`;
}

/** How messages name a table that a script leaves. */
export function tableOfScript(script: string, table: string): string {
  return `${script} (${table})`;
}

async function sourceFile(directory: SourceDirectory, path: string): Promise<SourceFile> {
  const found = await fingerprint(directory, path);
  if (found === undefined) throw refusalOf(directory.path, path, "is a link to nothing, or gone");
  return { path: await realpath(path), name: nameOf(directory.path, path), fingerprint: found };
}

const nameOf = (root: string, path: string) => relative(root, path).split(sep).join("/");

function refusalOf(root: string, path: string, rule: string): SourceRefusal {
  return new SourceRefusal([{ file: nameOf(root, path), rule }]);
}

/** The sorted paths of the Parquet files below a directory, following symbolic links; none when it does not exist. */
async function filesBelow(root: string, directory: string, above: readonly string[] = []): Promise<string[]> {
  const names = (await ifPresent(readdir(directory))) ?? [];
  const real = names.length > 0 ? await realpath(directory) : directory;
  if (above.includes(real)) throw refusalOf(root, directory, "is a link to a folder that it lies in");
  const paths = await Promise.all(
    names.sort().map(async (name) => {
      const path = join(directory, name);
      const info = await statOf(root, path);
      if (info?.isDirectory()) return filesBelow(root, path, [...above, real]);
      return name.endsWith(".parquet") ? [path] : [];
    }),
  );
  return paths.flat();
}

/** Throws SourceRefusal when a file of a source has been changed, removed or added since it was listed. */
export async function refuseChanges(
  directory: SourceDirectory,
  name: string,
  before: { files: readonly SourceFile[]; unfetched: readonly string[] },
): Promise<void> {
  const now = await listSourceFiles(directory, name, before.unfetched);
  refuseDifferences(fingerprints(before.files), fingerprints(now));
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

/** The stat of a path, following links; undefined when nothing is there. */
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

/** Whether files are refused for nothing but that they have changed meanwhile. */
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
