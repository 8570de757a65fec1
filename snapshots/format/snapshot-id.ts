import type { Manifest, SegmentRef } from "../../schemas/store/snapshot.ts";
import { sha256 } from "../store/layout.ts";
import { identityOf, type LogicalContent } from "./identity.ts";
import { digestFrom } from "./sha256.ts";
import { leafHash, nodeHash, rootOf, rootOver } from "./tree.ts";

/** The snapshot's id: the SHA-256 over its logical content. */
export const snapshotIdOf = (content: LogicalContent): string => sha256(identityOf(content));

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
  return rootOf("scores", leaves.length, leaves).toString("hex");
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
