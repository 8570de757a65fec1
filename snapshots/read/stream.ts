/** A chunk of an answer of any length: how many rows or bytes it counts for, and its text. */
export interface StreamChunk {
  count: number;
  text: Buffer;
}

/** An answer of any length, read only as fast as it is sent. */
export interface Stream {
  /** How many rows or bytes it has. */
  count: number;
  /** Reads the next ones only when they are asked for. */
  read(): AsyncGenerator<StreamChunk, void, void>;
  /** The same as one gzip member, where that can be put together from stored pieces. */
  readGzip?(): AsyncGenerator<StreamChunk, void, void>;
  /** The way out for a caller whose quota does not pay for the whole stream. */
  advice: string;
}

/** Bytes from `from` to `to` (exclusive). */
export interface ByteRange {
  from: number;
  to: number;
}

/** Bytes that are the same for as long as their name stands. */
export interface StoredFile {
  /** A SHA-256 that stands for them. */
  hash: string;
  bytes: number;
  contentType: string;
  /** Whether ranges can be asked for. */
  ranges: boolean;
  read(range: ByteRange): Stream;
}

/**
 * Begins to read an answer, in gzip if that is wanted and can be put together from stored pieces: then it is
 * `compressed`. Settles with the first chunk at hand; the others are read only when they are asked for.
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

/** A sequence whose first element was already taken. */
async function* goOn<T>(first: IteratorResult<T, void>, others: AsyncIterable<T>) {
  if (first.done) return;
  yield first.value;
  yield* others;
}
