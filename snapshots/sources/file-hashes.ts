import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { inParallel } from "../store/in-parallel.ts";
import type { SourceFile } from "./source-files.ts";

/** The SHA-256 of a file's bytes, and their number. */
export interface Content {
  hash: string;
  bytes: number;
}

/** Files that are hashed at the same time: while one is hashed, others are read. */
const concurrency = 4;
const partBytes = 1024 * 1024;

/** The contents of files. A file that cannot be read has none: reading its rows fails too, and tells why. */
export async function hashContents(files: readonly SourceFile[]): Promise<Map<SourceFile, Content>> {
  const contents = new Map<SourceFile, Content>();
  const hashOne = async (file: SourceFile) => {
    const hash = createHash("sha256");
    const part = Buffer.allocUnsafeSlow(partBytes);
    await using handle = await open(file.path);
    let bytes = 0;
    for (let read = -1; read !== 0; bytes += read) {
      read = (await handle.read(part)).bytesRead;
      hash.update(part.subarray(0, read));
    }
    contents.set(file, { hash: hash.digest("hex"), bytes });
  };
  await inParallel(files, (file) => hashOne(file).catch(() => {}), concurrency);
  return contents;
}
