import { requireStore } from "../snapshots/store/exists.ts";
import { openStorage } from "../snapshots/store/open-storage.ts";
import { parseS3Location } from "../snapshots/store/s3.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import { requiredOption } from "./cli.ts";
import type { Shell } from "./shell.ts";

/** The option that names a store. */
export const storeOption = {
  store: { type: "string", value: "STORE", required: true, does: "the store" },
} as const;

/** The store that --store names, which must be there. Throws UsageError, or StorageError when it is not. */
export async function openStore(
  shell: Shell,
  location: string | undefined,
  looks: { keysFirst?: boolean } = {},
): Promise<Storage> {
  const storage = openNewStore(shell, location);
  await requireStore(storage, looks);
  return storage;
}

/**
 * The store that --store names, for a first object: with `create` a directory need not be there. An S3 prefix needs no making,
 * and an issuer of keys may not look for anything else below it.
 */
export async function openStoreToWrite(
  shell: Shell,
  location: string | undefined,
  create: boolean,
): Promise<Storage> {
  if (create || parseS3Location(requiredOption("store", location))) return openNewStore(shell, location);
  const storage = openNewStore(shell, location);
  await requireStore(storage, { wayOut: "; --create makes one", keysFirst: true });
  return storage;
}

/** The store that --store names, there or not. Throws UsageError or StorageError. */
export function openNewStore(shell: Shell, location: string | undefined): Storage {
  return openStorage(requiredOption("store", location), shell.directory, shell.env);
}
