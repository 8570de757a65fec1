import { maxSnapshotsListed, type SnapshotList, type Status } from "../../../schemas/envelopes.ts";
import { ObjectError, unless } from "../../store/errors.ts";
import { countTiers } from "../archive/facets.ts";
import type { Catalog } from "./catalog.ts";

/** The state of the current snapshot and of its publisher. Throws SNAPSHOT_UNAVAILABLE before the first snapshot. */
export function statusOf(catalog: Catalog, { staleAfterSeconds }: { staleAfterSeconds: number }): Status {
  const { commit, manifest } = catalog.requireCurrent();
  const checkedAt = catalog.checkedAt() ?? commit.publishedAt;
  const ageSeconds = Math.max(0, Math.floor((catalog.log.now() - Date.parse(checkedAt)) / 1000));
  return {
    snapshotId: commit.snapshotId,
    commit: commit.commit,
    publishedAt: commit.publishedAt,
    checkedAt,
    ageSeconds,
    stale: ageSeconds > staleAfterSeconds,
    counts: commit.counts,
    newestResolvedAt: manifest.newestResolvedAt,
    newestUpdatedAt: manifest.newestUpdatedAt,
  };
}

/** What everybody may know of the current snapshot (INTERFACE 4.6). Before the first one it throws. */
export async function publicStatus(catalog: Catalog, how: { staleAfterSeconds: number }): Promise<Status> {
  const status = statusOf(catalog, how);
  const { commit } = catalog.requireCurrent();
  // Where the archive is damaged, the rest is told all the same.
  const snapshot = await unless(ObjectError, () => catalog.snapshot(commit));
  return snapshot ? { ...status, marketsByTier: await countTiers(snapshot.archive) } : status;
}

/** The snapshots that can be read, newest first (INTERFACE 4.10). */
export async function listSnapshots(catalog: Catalog): Promise<SnapshotList> {
  catalog.requireCurrent();
  const entries = (await catalog.log.readable()).slice(0, maxSnapshotsListed);
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
