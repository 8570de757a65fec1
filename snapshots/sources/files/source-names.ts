import { RefusalList } from "../contract/refusals.ts";
import type { SourceTable } from "../contract/table-schema.ts";

// Judges the sources by names alone, so that folders and S3 give the same answer.

/**
 * Table formats by what stands beside their data files: patterns of names below the table's folder. Such a folder also
 * holds rows that were deleted, replaced or never committed; only the log tells which files are live.
 */
const formats = [
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
] as const satisfies readonly { format: string; log: string; way?: string }[];
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
    const [, folder, ...found] = anyLog.exec(name) ?? [];
    const passed = passedPart(folder ?? name);
    if (folder !== undefined && passed === undefined)
      this.#tables.set(folder, formats[found.findIndex((part) => part !== undefined)]!);
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
    for (const [file, { format, ...way }] of this.#tables) {
      const means = "way" in way ? way.way : "a program that knows the format can";
      const rule =
        `is a table of ${format}, whose log says which of its files are live; ` +
        `list those in a script (${means}; .github/deploy/SOURCES.md, "Tables with a log")`;
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
        const there = shown(here.length > 0 ? here : await names());
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

export const isPassed = (name: string) => unread.test(name);

/** A sentence for the operator, if any names were passed over. */
export function passedWarning(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const what = names.length === 1 ? "1 file or folder" : `${names.length} files and folders`;
  return [`passed over ${what} named _*, .* or tmp_*.parquet: ${shown(names)}`];
}

function shown(names: readonly string[]): string {
  const more = names.length > shownNames ? ", …" : "";
  return names.toSorted().slice(0, shownNames).join(", ") + more;
}
