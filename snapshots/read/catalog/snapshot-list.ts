import { maxSnapshotsListed, type SnapshotList } from "../../../schemas/envelopes.ts";
import type { Catalog } from "./catalog.ts";

/**
 * The snapshots that can be read, newest first (INTERFACE 4.10). Throws NoSnapshotError, or as Catalog.readable does.
 */
export async function listSnapshots(catalog: Catalog): Promise<SnapshotList> {
  catalog.requireCurrent();
  const entries = (await catalog.readable()).slice(0, maxSnapshotsListed);
  const snapshots = await Promise.all(
    entries.map(async ({ snapshotId, commit, publishedAt, counts, archiveRoot }) => {
      const successor = await catalog.log.entry(commit + 1);
      return {
        snapshotId,
        commit,
        publishedAt,
        supersededAt: successor?.publishedAt ?? null,
        counts,
        archiveRoot,
      };
    }),
  );
  return { count: snapshots.length, snapshots };
}
