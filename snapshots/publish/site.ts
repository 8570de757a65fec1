import { type ApiPlace, publishedApi, publishedSite } from "../../proxy/site/files.ts";
import { inParallel } from "../store/in-parallel.ts";
import { CorruptObjectError } from "../store/sealed.ts";
import type { Storage } from "../store/storage.ts";

/**
 * Puts the files of the site that the store lacks, or has otherwise. The API is the one that the store names already,
 * unless another is given. Throws StorageError.
 */
export async function projectSite(storage: Storage, given?: ApiPlace): Promise<void> {
  const api = given === undefined ? await publishedApi(storage) : given;
  await inParallel([...publishedSite(api)], ([key, bytes]) => putIfOther(storage, key, bytes));
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
