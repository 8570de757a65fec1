import { createHash } from "node:crypto";
import { feedVersion } from "../../schemas/envelopes.ts";
import { formatVersion, type Manifest } from "../../schemas/snapshot.ts";

/** The logical content of a snapshot, which does not depend on how it is compressed. */
export interface LogicalContent {
  /** The SHA-256 of each page's JSON text, from the oldest page to the newest. */
  pageDigests: Iterable<string>;
  scores: Manifest["scores"];
}

/** The snapshot's id: the SHA-256 over its logical content, one line per part (snapshots/SPEC.md, "Identity"). */
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
