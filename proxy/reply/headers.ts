import { apiHeaders, securityHeaders } from "../../schemas/headers.ts";
import { apiRootOf } from "../../schemas/sharing.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";

/**
 * The headers of every answer to a request for a path. They name the snapshot that is current when the request arrives;
 * an answer may overrule that.
 */
export function commonHeaders(catalog: Catalog, path: string, requestId: string): Record<string, string> {
  const snapshotId = catalog.current()?.manifest.snapshotId;
  return {
    ...(apiRootOf(path) ? apiHeaders : securityHeaders),
    ...(snapshotId !== undefined && { "X-Snapshot-Id": snapshotId }),
    "X-Request-Id": requestId,
  };
}
