import { layout } from "../layout.ts";
import { type Storage, StorageError } from "./storage.ts";

/** Whether the address holds a store: one has commits or keys. Throws StorageError. */
export async function storeExists(storage: Storage): Promise<boolean> {
  for (const prefix of [layout.commits, layout.keys]) for await (const _ of storage.list(prefix)) return true;
  return false;
}

/** Throws StorageError when the address holds no store: it is mistyped, or nothing was published there yet. */
export async function requireStore(storage: Storage, wayOut = ""): Promise<void> {
  if (!(await storeExists(storage))) throw new StorageError(noStoreAt(storage) + wayOut);
}

/** The words for an address without a store. */
export function noStoreAt({ location }: Storage): string {
  return `there is no store at ${location}`;
}
