import { hashIn, layout } from "../../store/layout.ts";
import type { Storage } from "../../store/storage.ts";
import type { CommitLog, LogEntry } from "./commit-log.ts";

/**
 * The commits whose snapshots can be read, newest first: no rollback withdrew them, and no collection deleted their
 * manifests.
 */
export async function readableCommits(storage: Storage, log: CommitLog): Promise<readonly LogEntry[]> {
  const manifests = await storedManifests(storage);
  const entries = await log.believed();
  return entries.filter(({ commit, manifest }) => manifests.has(manifest.hash) && !log.isWithdrawn(commit));
}

/** The hashes of the manifests that the store has. */
export async function storedManifests(storage: Storage): Promise<ReadonlySet<string>> {
  const manifests = new Set<string>();
  for await (const { key } of storage.list(layout.manifests)) manifests.add(hashIn(key));
  return manifests;
}
