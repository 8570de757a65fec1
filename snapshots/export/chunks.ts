import { readFile } from "node:fs/promises";
import type { ParquetFile } from "../../schemas/store/snapshot.ts";
import { chunksOf, chunkBytes as sizes } from "../format/cuts.ts";
import { hashBytes } from "../format/hash-trees.ts";
import { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { layout, sha256 } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

const chunkBytes = sizes.file;

/** The SHA-256 of each chunk, one after the other: the content of the object that `chunks` refers to. */
const chunkHashes = (file: Buffer): Buffer =>
  Buffer.from(chunksOf(file, chunkBytes).map(sha256).join(""), "hex");

export async function readChunkHashes(storage: Storage, { chunks, bytes }: ParquetFile): Promise<Buffer> {
  return checkedHashes(
    await readObject(storage, layout.exportChunks(chunks.hash), chunks),
    chunks.hash,
    bytes,
  );
}

/** Refuses hashes unless there is one for each chunk. */
export function checkedHashes(hashes: Buffer, hash: string, bytes: number): Buffer {
  if (hashes.length === Math.ceil(bytes / chunkBytes) * hashBytes) return hashes;
  throw new CorruptObjectError(layout.exportChunks(hash), "it does not hold one hash per chunk");
}

/**
 * Yields the bytes from `from` to `to` (exclusive), at most a chunk at a time. Each chunk is checked before any byte of
 * it is passed on.
 */
export async function* readChunks(
  storage: Storage,
  file: Pick<ParquetFile, "hash" | "bytes">,
  hashes: Buffer,
  { from, to }: { from: number; to: number },
): AsyncGenerator<Buffer, void, void> {
  const key = layout.exportFile(file.hash);
  for (let chunk = Math.floor(from / chunkBytes); chunk * chunkBytes < to; chunk += 1) {
    const offset = chunk * chunkBytes;
    const range = { offset, bytes: Math.min(chunkBytes, file.bytes - offset) };
    const bytes = await storage.get(key, { range });
    if (!bytes) throw new MissingObjectError(key);
    const expected = hashes.toString("hex", chunk * hashBytes, (chunk + 1) * hashBytes);
    if (sha256(bytes) !== expected)
      throw new CorruptObjectError(key, `chunk ${chunk} does not match its hash`);
    yield bytes.subarray(Math.max(0, from - offset), to - offset);
  }
}

/** Reads the file back from the store. */
export async function putFile(storage: Storage, path: string): Promise<Omit<ParquetFile, "rows">> {
  const bytes = await readFile(path);
  const hashes = chunkHashes(bytes);
  const ref = { hash: sha256(bytes), bytes: bytes.length };
  const chunks = { hash: sha256(hashes), bytes: hashes.length };
  await putRenewed(storage, layout.exportChunks(chunks.hash), hashes);
  await putRenewed(storage, layout.exportFile(ref.hash), bytes);
  // The run must notice what the store changed or lost, not a reader.
  for await (const _ of readChunks(storage, ref, hashes, { from: 0, to: ref.bytes }));
  return { ...ref, chunks };
}

/** Writes an object that is there again, so that a collection finds it changed. */
async function putRenewed(storage: Storage, key: string, body: Buffer): Promise<void> {
  if (!(await storage.putIfAbsent(key, body))) await storage.put(key, body);
}
