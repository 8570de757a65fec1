import { resolve } from "node:path";
import { directoryStorage } from "./directory.ts";
import { type Storage, StorageError } from "./storage.ts";

/** Opens the store a user named: a directory, relative to `base`. */
export function openStorage(location: string, base: string): Storage {
  // Without this line a bucket's name would become a folder of that name.
  if (location.includes("://"))
    throw new StorageError(`${location}: only directories are supported as stores so far`);
  return directoryStorage(resolve(base, location));
}
