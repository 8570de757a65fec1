import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { inParallel } from "../../store/in-parallel.ts";
import { type Refusal, RefusalList } from "../contract/refusals.ts";
import { readingFault, readParquet } from "../duckdb/duckdb.ts";
import { identifier } from "../duckdb/sql-literals.ts";
import type { FileGroup } from "./file-groups.ts";
import type { SourceFile } from "./source-files.ts";

/** `hash` is the SHA-256 of the bytes. */
interface Content {
  hash: string;
  bytes: number;
}

/** While one file is hashed, others are read. */
const concurrency = 4;
const partBytes = 1024 * 1024;

/** Each file has a content, or the error why not. */
export interface HashedFiles {
  contents: ReadonlyMap<SourceFile, Content>;
  failures: ReadonlyMap<SourceFile, unknown>;
}

/**
 * Does not hash files whose content is known by their name, as long as they have as many bytes. Errors are collected:
 * mostly, reading the rows of such a file fails too, and says more.
 */
export async function hashContents(
  files: readonly SourceFile[],
  known: ReadonlyMap<string, Content> = new Map(),
): Promise<HashedFiles> {
  const contents = new Map<SourceFile, Content>();
  const failures = new Map<SourceFile, unknown>();
  const hashOne = async (file: SourceFile): Promise<Content> => {
    const hash = createHash("sha256");
    const part = Buffer.allocUnsafeSlow(partBytes);
    await using handle = await open(file.path);
    const content = known.get(file.name);
    if (content && (await handle.stat()).size === content.bytes)
      return { hash: content.hash, bytes: content.bytes };
    let bytes = 0;
    for (let read = -1; read !== 0; bytes += read) {
      read = (await handle.read(part)).bytesRead;
      hash.update(part.subarray(0, read));
    }
    return { hash: hash.digest("hex"), bytes };
  };
  const failed = (file: SourceFile) => (error: unknown) => {
    failures.set(file, error);
  };
  const keep = (file: SourceFile) =>
    hashOne(file).then((content) => void contents.set(file, content), failed(file));
  await inParallel(files, keep, concurrency);
  return { contents, failures };
}

/** Throws only for a file whose columns were read. */
export function contentOf(file: SourceFile, { contents, failures }: HashedFiles): Content {
  const content = contents.get(file);
  if (content) return content;
  throw new Error(`${file.name}: its columns can be read, but not its bytes`, { cause: failures.get(file) });
}

/**
 * Finds the files that made a query fail, by reading every column of every file separately. Throws SourceRefusal naming
 * them; returns when all can be read, so that the error has another cause.
 */
export async function refuseUnreadable(
  connection: DuckDBConnection,
  groups: readonly FileGroup[],
): Promise<void> {
  const refusals = new RefusalList();
  for (const group of groups) {
    for (const file of group.files) {
      for (const { name } of group.fields) {
        const refusal = await columnFault(connection, { ...group, files: [file] }, name);
        if (refusal) refusals.add(refusal);
      }
    }
  }
  refusals.throwIfAny();
}

async function columnFault(
  connection: DuckDBConnection,
  group: FileGroup,
  column: string,
): Promise<Refusal | undefined> {
  const file = group.files[0]!;
  try {
    // Hashing reads every byte of every value. A count would be answered from the file's statistics.
    await connection.run(`SELECT max(hash(${identifier(column)})) FROM ${readParquet(group)}`);
    return undefined;
  } catch (error) {
    const fault = readingFault(error);
    const value = /value "(.*)" is not valid UTF8/s.exec(fault)?.[1];
    if (value === undefined) return { file: file.name, column, rule: fault };
    return {
      file: file.name,
      column,
      value: JSON.stringify(value.slice(0, 100)),
      rule: "must be valid UTF-8",
    };
  }
}
