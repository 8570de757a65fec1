/** What a listing tells of one object. */
export interface ObjectInfo {
  key: string;
  bytes: number;
  modified: Date;
  /** Another one after every change; in S3 the ETag, in most buckets the MD5 of the content. */
  tag: string;
}

/** The largest object any reader takes into memory unless it says otherwise. */
export const maxObjectBytes = 256 * 1024 * 1024;

/**
 * The store as everything else sees it. Keys are relative, `/`-separated, of the alphabet `[A-Za-z0-9._/-]`.
 * A backend sets the headers that layout.ts names for a key, and puts whole objects or nothing.
 */
export interface Storage {
  /** The store as the user named it, for messages. */
  readonly location: string;
  /** The object's bytes, or undefined when there is none. Throws StorageError, or CorruptObjectError beyond `maxBytes`. */
  get(key: string, options?: { maxBytes?: number; signal?: AbortSignal }): Promise<Buffer | undefined>;
  /** Creates or replaces an object. */
  put(key: string, body: Uint8Array): Promise<void>;
  /** Creates an object; false, and nothing changed, when the key already exists. */
  putIfAbsent(key: string, body: Uint8Array): Promise<boolean>;
  /** Replaces an object that still has this tag; false, and nothing changed, when it has another one or is gone. */
  replace(key: string, body: Uint8Array, tag: string): Promise<boolean>;
  /** Every object under a prefix, in no order. Throws rather than return part of the list. */
  list(prefix: string): AsyncIterable<ObjectInfo>;
  /** Deletes an object; fine when there is none. */
  delete(key: string): Promise<void>;
  /** Removes what writers that were killed left behind, where that can be, and returns how much it was. */
  removeLeftovers?(): Promise<number>;
}

/** The store cannot be reached, or refuses. The message names the store, the operation and the key. */
export class StorageError extends Error {
  override readonly name = "StorageError";
}
