import { resolve } from "node:path";
import { directoryStorage } from "./directory.ts";
import { createS3Client, parseS3Location, type S3Environment, type S3Limits, s3Storage } from "./s3.ts";
import { type Storage, StorageError } from "./storage.ts";

/**
 * Opens the store at a location given by a user: `s3://bucket/prefix`, or a directory relative to `base`. `limits`
 * replaces the S3 limits, whose default suits publishers. Throws StorageError for any other kind of address.
 */
export function openStorage(
  location: string,
  base: string,
  environment: S3Environment = {},
  limits?: S3Limits,
): Storage {
  const s3 = parseS3Location(location);
  if (s3) return s3Storage(s3, createS3Client(environment, limits), limits);
  if (!isStoreLocation(location))
    throw new StorageError(`${location}: a store is a directory or s3://bucket/prefix`);
  return directoryStorage(resolve(base, location));
}

/** Whether a text can name a store. Without this check, a mistyped URL would become a folder of that name. */
export function isStoreLocation(location: string): boolean {
  return parseS3Location(location) !== undefined || !location.includes("://");
}
