import type { Manifest, SegmentRef } from "../../schemas/store/snapshot.ts";
import { sha256 } from "../store/layout.ts";
import { digestFrom } from "./sha256.ts";
import { leafHash, nodeHash, rootOf, rootOver, treeHead } from "./tree.ts";

/** The input of a snapshot id. It does not depend on how anything is compressed. */
export interface LogicalContent {
  feedVersion: string;
  counts: Pick<Manifest["counts"], "markets" | "protocols">;
  /** Roots in hexadecimal. */
  archiveRoot: string;
  scoresRoot: string;
}

/** The snapshot's id: the SHA-256 over its logical content, one line per part (snapshots/SPEC.md, "Identity"). */
export function snapshotIdOf({ feedVersion, counts, archiveRoot, scoresRoot }: LogicalContent): string {
  const lines = [
    `prs-snapshot 1 ${feedVersion}`,
    `markets ${counts.markets}`,
    `protocols ${counts.protocols}`,
    `archive ${archiveRoot}`,
    `scores ${scoresRoot}`,
  ];
  return sha256(Buffer.from(lines.map((line) => `${line}\n`).join("")));
}

/** The lines that the tree of scores is made of, one per object (snapshots/SPEC.md, "Identity"). */
export function scoreLines({ list, records, histories, dimensions }: Manifest["scores"]): string[] {
  const linesOf = (part: string, refs: Manifest["scores"]["records"]) =>
    Object.keys(refs)
      .sort()
      .map((slug) => `${part} ${slug} ${refs[slug]?.hash}`);
  return [
    `scores ${list.hash}`,
    ...linesOf("score", records),
    ...linesOf("history", histories),
    ...linesOf("dimensions", dimensions),
  ];
}

/** The root of the tree of scores, in hexadecimal. */
export function scoresRootOf(scores: Manifest["scores"]): string {
  const leaves = scoreLines(scores).map((line) => leafHash(Buffer.from(line)));
  return rootOf("scores", { children: leaves.length, total: leaves.length }, treeHead(leaves)).toString(
    "hex",
  );
}

/** What the index root covers of a segment. */
export type CoveredSegment = Pick<SegmentRef, "markets"> & {
  index: Pick<SegmentRef["index"], "hash">;
  ids: Pick<SegmentRef["ids"], "root">;
};

/** The root of the index of these segments, in hexadecimal (snapshots/SPEC.md, "Index root"). */
export function indexRootOf(segments: readonly CoveredSegment[]): string {
  const children = segments.map(({ index, ids, markets }) => {
    return { root: nodeHash(digestFrom(index.hash), digestFrom(ids.root)).toString("hex"), markets };
  });
  return rootOver("index", children).toString("hex");
}
