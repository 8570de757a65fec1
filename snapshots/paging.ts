import { ServiceError } from "../schemas/errors.ts";
import type { ArchiveQuery } from "../schemas/query.ts";
import type { Catalog, Snapshot } from "./catalog.ts";

/** What one response of the archive consists of, decided before any page is read for it. */
export interface PagePlan {
  snapshot: Snapshot;
  /** Weak entity tag: equal for every response with the same markets, whoever asks and whenever. */
  etag: string;
  /** The whole body. `gzip` decides whether it is one gzip member or the JSON itself. */
  body(envelope: { tier: string; timestamp: string; gzip: boolean }): Promise<Buffer>;
}

/**
 * Finds the page a query asks for (CONTRACT of the archive: README "Archive").
 * Throws ServiceError INVALID_CURSOR, CURSOR_MISMATCH, CURSOR_EXPIRED or SNAPSHOT_UNAVAILABLE.
 */
export async function planPage(catalog: Catalog, _query: ArchiveQuery): Promise<PagePlan> {
  const snapshot = catalog.current();
  if (!snapshot) throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot has been published yet.");
  throw new Error("not built yet");
}
