import { layout } from "./layout.ts";
import { type Storage, StorageError } from "./storage.ts";

/** What a store has one of at least; whoever may read only one of them names that first. */
const signs = [layout.commits, layout.keys];

/** Whether the address holds a store: one has commits or keys. Throws StorageError. */
export async function storeExists(storage: Storage, prefixes: readonly string[] = signs): Promise<boolean> {
  for (const prefix of prefixes) for await (const _ of storage.list(prefix)) return true;
  return false;
}

/** Throws StorageError when the address holds no store: it is mistyped, or nothing was published there yet. */
export async function requireStore(storage: Storage, { wayOut = "", keysFirst = false } = {}): Promise<void> {
  if (!(await storeExists(storage, keysFirst ? signs.toReversed() : signs)))
    throw new StorageError(noStoreAt(storage) + wayOut);
}

/** The words for an address without a store. */
export function noStoreAt({ location }: Storage): string {
  return `there is no store at ${location}`;
}
