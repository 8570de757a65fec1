import { openStorage, requireStore } from "../snapshots/store/open-storage.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import { parseS3Location } from "../snapshots/store/storage.ts";
import { requiredOption } from "./cli.ts";
import type { Shell } from "./shell.ts";

/** The option that names a store. */
export const storeOption = {
  store: { type: "string", value: "STORE", required: true, does: "the store" },
} as const;

/** Opens the store that --store names. Throws UsageError, or StorageError when there is no store. */
export async function openStore(
  shell: Shell,
  location: string | undefined,
  looks: { keysFirst?: boolean } = {},
): Promise<Storage> {
  const storage = await openNewStore(shell, location);
  await requireStore(storage, looks);
  return storage;
}

/**
 * Opens the store that --store names, to write an object that may be its first. With `create` a directory need not
 * exist. On S3 nothing is checked: a prefix need not be created, and a key issuer has no right to read other objects.
 */
export async function openStoreToWrite(
  shell: Shell,
  location: string | undefined,
  create: boolean,
): Promise<Storage> {
  if (create || parseS3Location(requiredOption("store", location))) return openNewStore(shell, location);
  const storage = await openNewStore(shell, location);
  await requireStore(storage, { wayOut: "; --create makes one", keysFirst: true });
  return storage;
}

/** Opens the store that --store names, whether or not it exists. Throws UsageError. */
export function openNewStore(shell: Shell, location: string | undefined): Promise<Storage> {
  return openStorage(requiredOption("store", location), shell.directory, shell.env);
}
