import { resolve } from "node:path";
import { Fault } from "../../schemas/errors.ts";
import { directoryStorage } from "./backends/directory.ts";
import { cachedOnDisk, type DiskCacheOptions } from "./backends/disk-cache.ts";
import type { S3Environment, S3Limits } from "./backends/s3.ts";
import { unless } from "./errors.ts";
import { layout } from "./layout.ts";
import { parseS3Location, type Storage, StorageError } from "./storage.ts";

/** Where a process keeps objects of a remote store, relative to `base`. Without `cacheDir` nothing is kept. */
export interface CacheFolder extends Pick<DiskCacheOptions, "warn"> {
  cacheDir?: string | undefined;
  cacheDiskBytes: number;
}

/**
 * Opens the store at a location that a user gave: `s3://bucket/prefix`, or a directory relative to `base`. The default
 * of `limits` suits publishers. A directory takes no `cache`.
 */
export async function openStorage(
  location: string,
  base: string,
  environment: S3Environment = {},
  limits?: S3Limits,
  cache?: CacheFolder,
): Promise<Storage> {
  const s3 = parseS3Location(location);
  if (s3) {
    // The SDK takes 35 MB of memory, and longer to load than everything else. A directory does without it.
    const { createS3Client, s3Storage } = await import("./backends/s3.ts");
    const storage = s3Storage(s3, createS3Client(environment, limits), limits, cache?.warn);
    if (!cache?.cacheDir) return storage;
    const { cacheDir, cacheDiskBytes: maxBytes, warn } = cache;
    return cachedOnDisk(storage, { directory: resolve(base, cacheDir), maxBytes, warn });
  }
  if (!isStoreLocation(location))
    throw new Fault("STORE_ADDRESS", `${location}: a store is ${storeAddresses}`);
  return directoryStorage(resolve(base, location));
}

export const storeAddresses =
  "a directory or s3://bucket/prefix, and a bucket's name has 3 to 63 characters of a-z, 0-9, . and -";

/** Without this check, a mistyped URL would become a folder of that name. */
export function isStoreLocation(location: string): boolean {
  return parseS3Location(location) !== undefined || !location.includes("://");
}

/** The least bound of a cache folder, and the default. */
export const cacheDisk = { leastBytes: 2 ** 20, defaultBytes: 4 * 2 ** 30 };

/** Every store has objects under at least one of these prefixes. */
const signs = [layout.commit.prefix, layout.key.prefix];

export async function storeExists(storage: Storage, prefixes: readonly string[] = signs): Promise<boolean> {
  for (const prefix of prefixes) for await (const _ of storage.list(prefix)) return true;
  return false;
}

/**
 * Throws StorageError when there is no store: the address is mistyped, or nothing was published yet. `wayOut` is added
 * to the message. `keysFirst` looks under keys/ first, for callers whose credentials may read nothing else.
 */
export async function requireStore(storage: Storage, { wayOut = "", keysFirst = false } = {}): Promise<void> {
  if (!(await storeExists(storage, keysFirst ? signs.toReversed() : signs)))
    throw new StorageError(noStoreAt(storage) + wayOut);
}

export function noStoreAt({ location }: Storage): string {
  return `there is no store at ${location}`;
}

export const probeBody = Buffer.from('{"purpose":"shows that this store honours conditional writes"}');

const racers = 4;

/**
 * Refuses a store that overwrites an object when told only to create it, be it always or while another writer creates
 * it: two publishers could both believe that they had made the same commit. A store that passes keeps `probe.json`, and
 * so does one whose credentials may not delete it.
 */
export async function probeConditionalWrites(storage: Storage): Promise<void> {
  const create = () => storage.putIfAbsent(layout.probe, probeBody);
  const isNew = !(await storeExists(storage, [layout.probe]));
  const created = isNew ? await Promise.all(Array.from({ length: racers }, create)) : [];
  const ignored = await create();
  if (!ignored && created.filter(Boolean).length <= 1) return;
  // Otherwise the next run would think that this store had passed.
  await unless(StorageError, () => storage.delete(layout.probe));
  const fault = ignored
    ? "ignores If-None-Match"
    : "checks If-None-Match before it writes, and not while it does";
  throw new StorageError(
    `${storage.location}: this store ${fault}, so publishers could overwrite each other's commits`,
  );
}
