import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { ObjectRef } from "../../../schemas/store/stored-objects.ts";
import { inParallel } from "../../store/in-parallel.ts";
import type { SourceFile } from "./source-files.ts";

/** While one file is hashed, others are read. */
const concurrency = 4;
const partBytes = 1024 * 1024;

/** Each file has a content, or the error why not. */
export interface HashedFiles {
  contents: ReadonlyMap<SourceFile, ObjectRef>;
  failures: ReadonlyMap<SourceFile, unknown>;
}

/**
 * Does not hash files whose content is known by their name, as long as they have as many bytes. Errors are collected:
 * mostly, reading the rows of such a file fails too, and says more.
 */
export async function hashContents(
  files: readonly SourceFile[],
  known: ReadonlyMap<string, ObjectRef> = new Map(),
): Promise<HashedFiles> {
  const contents = new Map<SourceFile, ObjectRef>();
  const failures = new Map<SourceFile, unknown>();
  const hashOne = async (file: SourceFile): Promise<ObjectRef> => {
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
export function contentOf(file: SourceFile, { contents, failures }: HashedFiles): ObjectRef {
  const content = contents.get(file);
  if (content) return content;
  throw new Error(`${file.name}: its columns can be read, but not its bytes`, { cause: failures.get(file) });
}
