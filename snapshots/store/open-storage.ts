import { resolve } from "node:path";
import { directoryStorage } from "./directory.ts";
import type { S3Environment, S3Limits } from "./s3.ts";
import { parseS3Location } from "./s3-location.ts";
import { type Storage, StorageError } from "./storage.ts";

/**
 * Opens the store at a location given by a user: `s3://bucket/prefix`, or a directory relative to `base`. `limits`
 * replaces the S3 limits, whose default suits publishers. Throws StorageError for any other kind of address.
 */
export async function openStorage(
  location: string,
  base: string,
  environment: S3Environment = {},
  limits?: S3Limits,
): Promise<Storage> {
  const s3 = parseS3Location(location);
  if (s3) {
    // The SDK takes 35 MB of memory, and longer to load than everything else. A directory does without it.
    const { createS3Client, s3Storage } = await import("./s3.ts");
    return s3Storage(s3, createS3Client(environment, limits), limits);
  }
  if (!isStoreLocation(location))
    throw new StorageError(`${location}: a store is a directory or s3://bucket/prefix`);
  return directoryStorage(resolve(base, location));
}

/** Whether a text can name a store. Without this check, a mistyped URL would become a folder of that name. */
export function isStoreLocation(location: string): boolean {
  return parseS3Location(location) !== undefined || !location.includes("://");
}
