import type { ScoreRefs, SegmentRef } from "../../schemas/store/snapshot.ts";
import { sha256 } from "../store/layout.ts";
import { identityOf, type LogicalContent } from "./identity.ts";
import { scoreLines } from "./score-lines.ts";
import { digestFrom } from "./sha256.ts";
import { leafHash, nodeHash, rootOf, rootOver } from "./tree.ts";

export const snapshotIdOf = (content: LogicalContent): string => sha256(identityOf(content));

/** Hexadecimal. */
export function scoresRootOf(scores: ScoreRefs): string {
  const leaves = scoreLines(scores).map((line) => leafHash(Buffer.from(line)));
  return rootOf("scores", leaves.length, leaves).toString("hex");
}

/** The part of a segment's reference that the index root covers. */
export type CoveredSegment = Pick<SegmentRef, "markets"> & {
  index: Pick<SegmentRef["index"], "hash">;
  ids: Pick<SegmentRef["ids"], "root">;
};

/** Hexadecimal (snapshots/SPEC.md, "Index root"). */
export function indexRootOf(segments: readonly CoveredSegment[]): string {
  const children = segments.map(({ index, ids, markets }) => {
    return { root: nodeHash(digestFrom(index.hash), digestFrom(ids.root)).toString("hex"), markets };
  });
  return rootOver("index", children).toString("hex");
}
