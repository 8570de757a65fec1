import { isCrossSite } from "../../schemas/addresses.ts";
import { apiHeaders, originHeaders, securityHeaders, vary } from "../../schemas/headers.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";

/**
 * The headers of every answer to a request for a path. They name the snapshot that is current when the request arrives;
 * an answer may overrule that.
 */
export function commonHeaders(catalog: Catalog, path: string, requestId: string): Record<string, string> {
  const snapshotId = catalog.current()?.manifest.snapshotId;
  return {
    ...(isCrossSite(path) ? apiHeaders : securityHeaders),
    ...(snapshotId !== undefined && { "X-Snapshot-Id": snapshotId }),
    "X-Request-Id": requestId,
  };
}

const loopback = ["localhost", "127.0.0.1", "[::1]"];

/** Headers that let pages on loopback addresses and on the service's own origin read an answer, and no others. */
export function ownPageHeaders(origin: string | undefined, apiUrl: URL | undefined): Record<string, string> {
  const { hostname = "" } = URL.parse(origin ?? "") ?? {};
  const own = loopback.includes(hostname) || hostname === apiUrl?.hostname;
  return { Vary: `${vary}, Origin`, ...(origin && own && originHeaders(origin)) };
}
