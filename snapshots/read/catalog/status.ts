import type { Status } from "../../../schemas/envelopes.ts";
import type { Catalog } from "./catalog.ts";

/** The state of the current snapshot and of its publisher. Throws NoSnapshotError. */
export function statusOf(catalog: Catalog, { staleAfterSeconds }: { staleAfterSeconds: number }): Status {
  const { commit, manifest } = catalog.requireCurrent();
  const checkedAt = catalog.checkedAt() ?? commit.publishedAt;
  const ageSeconds = Math.max(0, Math.floor((catalog.now() - Date.parse(checkedAt)) / 1000));
  return {
    snapshotId: manifest.snapshotId,
    commit: commit.commit,
    publishedAt: commit.publishedAt,
    checkedAt,
    ageSeconds,
    stale: ageSeconds > staleAfterSeconds,
    counts: { markets: manifest.counts.markets, protocols: manifest.counts.protocols },
    newestResolvedAt: manifest.newestResolvedAt,
    newestUpdatedAt: manifest.newestUpdatedAt,
  };
}
