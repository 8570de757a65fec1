/** One object in a listing. */
export interface ObjectInfo {
  key: string;
  bytes: number;
  modified: Date;
  /** Differs after every change. In S3 it is the ETag without quotes, in most buckets the MD5 of the content. */
  tag: string;
}

/** A part of an object, in bytes. */
export interface ByteRange {
  offset: number;
  bytes: number;
}

/** How much of an object is read, and until when. */
export interface GetOptions {
  maxBytes?: number;
  /** Reads this part alone, which `maxBytes` does not concern. */
  range?: ByteRange;
  /** Reads what the store has now, past any cache. */
  fresh?: boolean;
  signal?: AbortSignal;
}

/** The largest object, in bytes, that `get` reads into memory unless it is given another limit. */
export const maxObjectBytes = 256 * 1024 * 1024;

/**
 * A store, whatever its backend. Keys are relative, separated by `/`, and consist of `[A-Za-z0-9._/-]`. A backend puts
 * whole objects or nothing, and stores the headers that layout.ts derives from the key where it can. Every method
 * throws StorageError when the store fails.
 */
export interface Storage {
  /** The store's address, for messages. */
  readonly location: string;
  /**
   * Returns the object's bytes, or undefined when there is none. Throws CorruptObjectError beyond `maxBytes`, or when a
   * range does not lie within the object.
   */
  get(key: string, options?: GetOptions): Promise<Buffer | undefined>;
  /**
   * Creates or replaces an object. Returns whether the store has confirmed, by a checksum of what it received, that it
   * has these very bytes.
   */
  put(key: string, body: Uint8Array): Promise<boolean>;
  /** Creates an object. Returns false and changes nothing when the key exists. */
  putIfAbsent(key: string, body: Uint8Array): Promise<boolean>;
  /** Replaces an object that still has this tag. Returns false and changes nothing when it has changed or is gone. */
  replace(key: string, body: Uint8Array, tag: string): Promise<boolean>;
  /** Lists every object whose key begins with `prefix`, in no order. Throws rather than return a part of the list. */
  list(prefix: string): AsyncIterable<ObjectInfo>;
  /** Deletes an object. Does nothing when there is none. */
  delete(key: string): Promise<void>;
  /** By how many milliseconds the store's clock is ahead of this machine's, as far as its answers have told. */
  clockAhead?(): number;
  /** Removes the temporary files that killed writers left behind, and returns their number. S3 has none. */
  removeLeftovers?(): Promise<number>;
}

/** The store cannot be reached or refuses a request. The message names the store, the operation and the key. */
export class StorageError extends Error {
  readonly code = "STORE_UNREACHABLE";
}

/** A bucket and the prefix of the store's keys in it, which is "" or ends with "/". */
export interface S3Location {
  bucket: string;
  prefix: string;
}

/** Parses `s3://bucket` or `s3://bucket/prefix`; undefined for anything else. */
export function parseS3Location(location: string): S3Location | undefined {
  const [, bucket, path = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(location) ?? [];
  const prefix = path.replace(/\/+$/, "");
  return bucket === undefined ? undefined : { bucket, prefix: prefix === "" ? "" : `${prefix}/` };
}

/** Puts chunks together, apart from Node's pool: a cache that kept a few bytes of that would keep 64 KiB in memory. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const whole = Buffer.allocUnsafeSlow(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** All bytes of a body. `refuse` is called with their number as soon as they are more than `maxBytes`, and throws. */
export async function collected(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  refuse: (bytes: number) => never,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop early destroys the body. Left unread, it would occupy its connection.
  for await (const chunk of body) {
    length += chunk.length;
    if (length > maxBytes) refuse(length);
    chunks.push(chunk);
  }
  return joined(chunks);
}
