import { inParallel } from "../in-parallel.ts";
import { publishedSite } from "../site.ts";
import type { Storage } from "../storage/storage.ts";

/** Puts the files of the site that the store lacks, or has otherwise. Throws StorageError. */
export async function projectSite(storage: Storage): Promise<void> {
  await inParallel([...publishedSite()], async ([key, bytes]) => {
    const stored = await storage.get(key);
    if (!stored?.equals(bytes)) await storage.put(key, bytes);
  });
}
