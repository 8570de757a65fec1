import { inParallel } from "../in-parallel.ts";
import { CorruptObjectError } from "../seal.ts";
import { publishedSite } from "../site.ts";
import type { Storage } from "../storage/storage.ts";

/** Puts the files of the site that the store lacks, or has otherwise. Throws StorageError. */
export async function projectSite(storage: Storage): Promise<void> {
  await inParallel([...publishedSite()], ([key, bytes]) => putIfOther(storage, key, bytes));
}

/** Puts an object that the store lacks, or has otherwise. Throws StorageError. */
export async function putIfOther(storage: Storage, key: string, bytes: Buffer): Promise<void> {
  if (!(await hasThese(storage, key, bytes))) await storage.put(key, bytes);
}

async function hasThese(storage: Storage, key: string, bytes: Buffer): Promise<boolean> {
  try {
    return (await storage.get(key, { maxBytes: bytes.length }))?.equals(bytes) ?? false;
  } catch (error) {
    if (error instanceof CorruptObjectError) return false;
    throw error;
  }
}
