import type { CommitEntry, Manifest, ScoreRefs, SegmentRef } from "../../schemas/store/snapshot.ts";
import { sha256 } from "../store/layout.ts";
import { identityOf } from "./identity.ts";
import { scoreLines } from "./score-lines.ts";
import { digestFrom } from "./sha256.ts";
import { leafHash, nodeHash, rootOf, rootOver } from "./tree.ts";

/** The part of a commit's entry that follows from its snapshot. */
export type SnapshotEntry = Omit<CommitEntry, "commit" | "publishedAt" | "withdrawn">;

/** What the entry of a commit says of a snapshot. */
export function snapshotEntryOf(
  { segments, scores }: Pick<Manifest, "segments" | "scores">,
  feedVersion: string,
): SnapshotEntry {
  const markets = segments.reduce((sum, segment) => sum + segment.markets, 0);
  const counts = { markets, protocols: Object.keys(scores.records).length };
  const archiveRoot = rootOver("archive", segments).toString("hex");
  const scoresRoot = scoresRootOf(scores);
  const snapshotId = sha256(identityOf({ feedVersion, counts, archiveRoot, scoresRoot }));
  return { feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot: indexRootOf(segments), counts };
}

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
