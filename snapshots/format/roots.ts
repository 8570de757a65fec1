import { ProtocolSlug } from "../../schemas/records.ts";
import {
  type CommitEntry,
  type Manifest,
  maxProtocols,
  type ScoreRefs,
  type SegmentRef,
} from "../../schemas/store/stored-objects.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { sha256 } from "../store/layout.ts";
import { identityOf } from "./hash-trees.ts";
import { digestFrom, leafHash, nodeHash, rootOf, rootOver } from "./tree.ts";

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
type CoveredSegment = Pick<SegmentRef, "markets"> & {
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

/** The first words of the lines of protocols. */
const kinds = { score: "records", history: "histories", dimensions: "dimensions" } as const;

/** The leaves of the scores tree, one line for each object (snapshots/SPEC.md, "Roots"). */
export function scoreLines(scores: ScoreRefs): string[] {
  const linesOf = ([word, kind]: [string, (typeof kinds)[keyof typeof kinds]]) =>
    slugsOf(scores[kind]).map((slug) => `${word} ${slug} ${scores[kind][slug]?.hash}`);
  return [`scores ${scores.list.hash}`, ...Object.entries(kinds).flatMap(linesOf)];
}

/** The stored lines. */
export const scoreText = (scores: ScoreRefs): string =>
  scoreLines(scores)
    .map((line) => `${line}\n`)
    .join("");

/** Throws CorruptObjectError unless these are the lines of a snapshot, each in its place. */
export function readScoreText(key: string, bytes: Buffer): ScoreRefs {
  const text = bytes.toString();
  const list = { hash: /^scores ([0-9a-f]{64})\n/.exec(text)?.[1] ?? "" };
  const scores: ScoreRefs = { list, records: {}, histories: {}, dimensions: {} };
  for (const [, word, slug, hash] of text.matchAll(/^(score|history|dimensions) (\S+) ([0-9a-f]{64})$/gm))
    scores[kinds[word as keyof typeof kinds]][slug!] = { hash: hash! };
  if (scoreText(scores) !== text) throw new CorruptObjectError(key, "its lines are not as documented");
  const [slugs = [], ...others] = Object.values(kinds).map((kind) => slugsOf(scores[kind]));
  if (others.some((other) => other.join() !== slugs.join()))
    throw new CorruptObjectError(key, "its records, histories and dimensions name different protocols");
  if (slugs.length > maxProtocols || !slugs.every((slug) => ProtocolSlug.safeParse(slug).success))
    throw new CorruptObjectError(key, "it names too many protocols, or one that cannot be named so");
  return scores;
}

const slugsOf = (refs: ScoreRefs["records"]): string[] => Object.keys(refs).sort();
