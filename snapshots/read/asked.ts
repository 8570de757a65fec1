import { hash } from "node:crypto";
import type { LogEntry } from "./catalog/commit-log.ts";

/** A query that was understood, before any of its work is done. */
export interface Asked<Plan> {
  commit: LogEntry;
  etag: string;
  plan(): Promise<Plan>;
}

/**
 * A weak entity tag, equal for the same `parts` in every process. Nobody outside can compute it: it depends on the hash
 * of the manifest, which no answer reveals and which covers the digests of the source's rows.
 */
export function weakTag({ manifest }: LogEntry, ...parts: readonly (string | number)[]): string {
  const digest = hash("sha256", JSON.stringify([manifest.hash, ...parts]), "base64url");
  return `W/"${digest.slice(0, 27)}"`;
}
