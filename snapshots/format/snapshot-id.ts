import { createHash } from "node:crypto";
import { feedVersion } from "../../schemas/envelopes.ts";
import { formatVersion, type Manifest } from "../../schemas/snapshot.ts";

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
  const { records, histories, dimensions } = scores;
  for (const [part, refs] of Object.entries({ score: records, history: histories, dimensions })) {
    for (const slug of Object.keys(refs).sort()) hash.update(`${part} ${slug} ${refs[slug]?.hash}\n`);
  }
  return hash.digest("hex");
}
