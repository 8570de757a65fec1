import { createHash } from "node:crypto";
import { feedVersion } from "../schemas/envelopes.ts";
import { formatVersion, type Manifest } from "../schemas/snapshot.ts";

/** The logical content of a snapshot, whatever its compressed form. */
export interface LogicalContent {
  /** SHA-256 of each page's JSON text, from the oldest page up. */
  pageDigests: Iterable<string>;
  scores: Manifest["scores"];
}

/** SHA-256 over the logical content, one line a part (snapshots/SPEC.md, "Identity"). */
export function snapshotIdOf({ pageDigests, scores }: LogicalContent): string {
  const hash = createHash("sha256");
  hash.update(`prs-snapshot ${formatVersion} ${feedVersion}\n`);
  for (const digest of pageDigests) hash.update(`page ${digest}\n`);
  hash.update(`scores ${scores.list.hash}\n`);
  const slugs = Object.keys(scores.records).sort();
  for (const slug of slugs) hash.update(`score ${slug} ${scores.records[slug]?.hash}\n`);
  return hash.digest("hex");
}
