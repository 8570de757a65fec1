import { layout } from "./layout.ts";
import { type Storage, StorageError } from "./storage.ts";

/** A store has objects under at least one of these prefixes. */
const signs = [layout.commits, layout.keys];

/** Whether the address holds a store, that is any object under one of the prefixes. */
export async function storeExists(storage: Storage, prefixes: readonly string[] = signs): Promise<boolean> {
  for (const prefix of prefixes) for await (const _ of storage.list(prefix)) return true;
  return false;
}

/**
 * Throws StorageError when the address holds no store: it is mistyped, or nothing was published there yet. `wayOut` is
 * added to the message. `keysFirst` looks under keys/ first, for callers whose credentials may read nothing else.
 */
export async function requireStore(storage: Storage, { wayOut = "", keysFirst = false } = {}): Promise<void> {
  if (!(await storeExists(storage, keysFirst ? signs.toReversed() : signs)))
    throw new StorageError(noStoreAt(storage) + wayOut);
}

/** The message for an address without a store. */
export function noStoreAt({ location }: Storage): string {
  return `there is no store at ${location}`;
}
