import { ServiceError } from "../../schemas/errors.ts";
import type { Catalog, Snapshot } from "../../snapshots/read/catalog.ts";

/** The snapshot that is served. Throws ServiceError SNAPSHOT_UNAVAILABLE before the first is loaded. */
export function currentSnapshot(catalog: Catalog): Snapshot {
  const snapshot = catalog.current();
  if (snapshot) return snapshot;
  throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot is loaded yet; try again in a few seconds.");
}
