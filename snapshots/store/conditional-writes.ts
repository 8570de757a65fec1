import { layout } from "./layout.ts";
import { type Storage, StorageError } from "./storage.ts";

/** What `probe.json` holds. */
export const probeBody = Buffer.from('{"purpose":"shows that this store honours conditional writes"}');

/**
 * Refuses a store that overwrites where it was told to create: two publishers would both win a commit there.
 * Throws StorageError. The object it leaves is the same every time.
 */
export async function probeConditionalWrites(storage: Storage): Promise<void> {
  // The first create succeeds once in a store's life; the second must fail.
  for (let tries = 0; tries < 2; tries += 1)
    if (!(await storage.putIfAbsent(layout.probe, probeBody))) return;
  throw new StorageError(
    `${storage.location}: this store ignores If-None-Match, so publishers could overwrite each other's commits`,
  );
}
