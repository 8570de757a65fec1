import { layout } from "./layout.ts";
import { type Storage, StorageError } from "./storage.ts";

/** The content of `probe.json`. */
export const probeBody = Buffer.from('{"purpose":"shows that this store honours conditional writes"}');

/**
 * Refuses a store that overwrites an object although it was told only to create one: two publishers could both believe
 * that they had made the same commit. Leaves `probe.json` in the store.
 */
export async function probeConditionalWrites(storage: Storage): Promise<void> {
  // The first attempt succeeds only if the store has no probe.json yet; the second must fail.
  for (let tries = 0; tries < 2; tries += 1)
    if (!(await storage.putIfAbsent(layout.probe, probeBody))) return;
  throw new StorageError(
    `${storage.location}: this store ignores If-None-Match, so publishers could overwrite each other's commits`,
  );
}
