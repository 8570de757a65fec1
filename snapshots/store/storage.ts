export interface ObjectInfo {
  key: string;
  bytes: number;
  modified: Date;
  /** Differs after every change. In S3 it is the ETag without quotes, in most buckets the MD5 of the content. */
  tag: string;
}

export interface ByteRange {
  offset: number;
  bytes: number;
}

export interface GetOptions {
  /** `maxObjectBytes` where it is left out. */
  maxBytes?: number;
  /** Reads only this part; `maxBytes` does not apply. */
  range?: ByteRange;
  /** Reads what the store has now, past any cache. */
  fresh?: boolean;
  signal?: AbortSignal;
}

/**
 * A store, whatever its backend. Keys are relative, separated by `/`, and consist of `[A-Za-z0-9._/-]`. A backend puts
 * whole objects or nothing, and stores the headers that layout.ts derives from the key where it can. Every method
 * throws StorageError when the store fails.
 */
export interface Storage {
  /** An address for messages. */
  readonly location: string;
  /**
   * Undefined when there is no such object. Throws CorruptObjectError beyond `maxBytes`, or when a range does not lie
   * within the object.
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
  /** In no order. Throws rather than return a part of the list. */
  list(prefix: string): AsyncIterable<ObjectInfo>;
  /** Does nothing when there is no such object. */
  delete(key: string): Promise<void>;
  /** Milliseconds by which the store's clock is ahead of this machine's, as far as its answers have told. */
  clockAhead?(): number;
  /** Removes the temporary files that killed writers left behind, and returns how many. S3 has none. */
  removeLeftovers?(): Promise<number>;
}

/** The store cannot be reached or refuses a request. The message names the store, the operation and the key. */
export class StorageError extends Error {
  readonly code = "STORE_UNREACHABLE";
}

/** `prefix` begins the keys of the store; it is "" or ends with "/". */
export interface S3Location {
  bucket: string;
  prefix: string;
}

/** Undefined for anything but `s3://bucket` or `s3://bucket/prefix`. */
export function parseS3Location(location: string): S3Location | undefined {
  const [, bucket, path = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(location) ?? [];
  const prefix = path.replace(/\/+$/, "");
  return bucket === undefined ? undefined : { bucket, prefix: prefix === "" ? "" : `${prefix}/` };
}

/** Copies chunks out of Node's pool: a cache that kept a few bytes of that would hold 64 KiB of memory. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const whole = Buffer.allocUnsafeSlow(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** Calls `refuse` with the number of bytes as soon as they are more than `maxBytes`; it throws. */
export async function readAll(
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

/** Undefined where there is no such object. */
export async function infoOf(storage: Storage, key: string): Promise<ObjectInfo | undefined> {
  for await (const info of storage.list(key)) if (info.key === key) return info;
  return undefined;
}

/** S3 lists no more objects in one answer. */
const oneAnswer = 1000;

/**
 * Lists what is below `root` only once, and answers later listings from memory. Where that needs more than one answer,
 * each listing asks the store as before, so that those of several folders can run side by side.
 */
export function listedOnce(storage: Storage, root: string): Storage {
  let few: Promise<ObjectInfo[] | undefined> | undefined;
  const listFew = async () => {
    const infos: ObjectInfo[] = [];
    for await (const info of storage.list(root)) if (infos.push(info) === oneAnswer) return undefined;
    return infos;
  };
  return {
    ...storage,
    async *list(prefix) {
      if (prefix.startsWith(root)) few ??= listFew();
      const infos = prefix.startsWith(root) ? await few : undefined;
      if (!infos) return void (yield* storage.list(prefix));
      for (const info of infos) if (info.key.startsWith(prefix)) yield info;
    },
  };
}
