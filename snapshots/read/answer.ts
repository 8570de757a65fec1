import { hash } from "node:crypto";
import type { ByteRange } from "../store/storage.ts";
import type { LogEntry } from "./catalog/commit-log.ts";

/** A query that was understood, before any of its work is done. */
export interface Asked<Plan> {
  commit: LogEntry;
  etag: string;
  plan(): Promise<Plan>;
}

/**
 * A weak entity tag, equal for the same `parts` in every process. Nobody outside can compute it: it depends on the hash
 * of the manifest, which no answer reveals and which covers the digests of the source's rows.
 */
export function weakTag({ manifest }: LogEntry, ...parts: readonly (string | number)[]): string {
  const digest = hash("sha256", JSON.stringify([manifest.hash, ...parts]), "base64url");
  return `W/"${digest.slice(0, 27)}"`;
}

/** A chunk of an answer of any length. `count` is its number of rows or bytes. */
export interface StreamChunk {
  count: number;
  text: Buffer;
}

/** An answer of any length, read only as fast as it is sent. */
export interface Stream {
  /** Rows or bytes. */
  count: number;
  /** Reads the next chunk only when it is asked for. */
  read(): AsyncGenerator<StreamChunk, void, void>;
  /** One gzip member, where that can be put together from stored pieces. */
  readGzip?(): AsyncGenerator<StreamChunk, void, void>;
  /** The way out for a caller whose quota does not pay for the whole stream. */
  advice: string;
}

/** The bytes behind a name never change. */
export interface StoredFile {
  /** A SHA-256 that stands for the bytes. */
  hash: string;
  bytes: number;
  contentType: string;
  /** Whether ranges can be asked for. */
  ranges: boolean;
  read(range: ByteRange): Stream;
}

/**
 * Begins to read an answer. It is `compressed` if gzip is wanted and can be put together from stored pieces. Settles
 * with the first chunk at hand; the others are read only when they are asked for.
 */
export async function beginStream(
  stream: Stream,
  { gzip }: { gzip: boolean },
): Promise<{ chunks: AsyncGenerator<StreamChunk>; compressed: boolean }> {
  const compressed = gzip && stream.readGzip !== undefined;
  const chunks = compressed ? stream.readGzip!() : stream.read();
  const first = await chunks.next();
  return { chunks: goOn(first, chunks), compressed };
}

/** Puts back an element that was already taken. */
async function* goOn<T>(first: IteratorResult<T, void>, others: AsyncIterable<T>) {
  if (first.done) return;
  yield first.value;
  yield* others;
}
