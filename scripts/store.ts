import { integerOf } from "../schemas/shapes.ts";
import { cacheDisk, openStorage, requireStore } from "../snapshots/store/open-storage.ts";
import { parseS3Location, type Storage } from "../snapshots/store/storage.ts";
import { requiredOption, type Shell, usageError } from "./cli.ts";
import { jsonOption } from "./program.ts";

export const storeOption = {
  store: { type: "string", value: "STORE", required: true, does: "the store" },
} as const;

/** The options of every command of `snapshot` that opens a store. */
export const common = { ...storeOption, ...jsonOption };

/** Throws StorageError when there is no store. */
export async function openStore(
  shell: Shell,
  location: string | undefined,
  looks: { keysFirst?: boolean } = {},
): Promise<Storage> {
  const storage = await openStoreUnchecked(shell, location);
  await requireStore(storage, looks);
  return storage;
}

/**
 * Opens a store to write an object that may be its first. With `create` a directory need not exist. On S3 nothing is
 * checked: a prefix need not be created, and a key issuer has no right to read other objects.
 */
export async function openStoreToWrite(
  shell: Shell,
  location: string | undefined,
  create: boolean,
): Promise<Storage> {
  if (create || parseS3Location(requiredOption("store", location)))
    return openStoreUnchecked(shell, location);
  const storage = await openStoreUnchecked(shell, location);
  await requireStore(storage, { wayOut: "; --create makes one", keysFirst: true });
  return storage;
}

/**
 * Opens a store whether or not it exists. Objects of a store in S3 are cached in the folder `cacheDir`, where that is
 * given.
 */
export function openStoreUnchecked(
  shell: Shell,
  location: string | undefined,
  cacheDir?: string | undefined,
): Promise<Storage> {
  const { CACHE_DISK_BYTES: given } = shell.env;
  const [least, most] = [cacheDisk.leastBytes, Number.MAX_SAFE_INTEGER];
  const cacheDiskBytes = given ? integerOf(given, least, most) : cacheDisk.defaultBytes;
  if (cacheDiskBytes === undefined)
    throw usageError(`CACHE_DISK_BYTES must be an integer from ${least} to ${most}`);
  const cache = { cacheDir, cacheDiskBytes, warn: (line: string) => shell.warn(line) };
  return openStorage(requiredOption("store", location), shell.directory, shell.env, undefined, cache);
}
