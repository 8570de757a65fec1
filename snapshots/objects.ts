import { Manifest, type ObjectRef } from "../schemas/snapshot.ts";
import { layout } from "./layout.ts";
import { CorruptObjectError, parseObject, sha256 } from "./seal.ts";
import type { Storage } from "./storage/storage.ts";

/** An object that a manifest or segment names is not in the store: its snapshot was collected, or the store is broken. */
export class MissingObjectError extends Error {
  override readonly name = "MissingObjectError";
  readonly key: string;

  constructor(key: string) {
    super(`${key}: it is missing`);
    this.key = key;
  }
}

/** Reads an object by reference. Throws MissingObjectError, CorruptObjectError or StorageError. */
export async function readObject(storage: Storage, key: string, ref: ObjectRef): Promise<Buffer> {
  const bytes = await storage.get(key, { maxBytes: ref.bytes });
  if (!bytes) throw new MissingObjectError(key);
  if (bytes.length !== ref.bytes || sha256(bytes) !== ref.hash) {
    throw new CorruptObjectError(key, "its content does not match its name");
  }
  return bytes;
}

export async function readManifest(storage: Storage, ref: ObjectRef): Promise<Manifest> {
  const key = layout.manifest(ref.hash);
  return parseObject(key, await readObject(storage, key, ref), Manifest);
}
