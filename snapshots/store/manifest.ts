import { ProtocolSlug } from "../../schemas/records.ts";
import {
  type Commit,
  type CommitEntry,
  type Manifest,
  type ManifestRoot,
  maxListed,
  maxProtocols,
  maxSegments,
  type ObjectRef,
  type ScoreRefs,
  type SegmentRef,
} from "../../schemas/store/stored-objects.ts";
import { feedVersions, formatVersion, isKnownFeed } from "../../schemas/versions.ts";
import { identityOf } from "../format/hash-trees.ts";
import { digestFrom, leafHash, nodeHash, rootOf, rootOver } from "../format/tree.ts";
import { CorruptObjectError, FormatError, isLoss, type MissingObjectError } from "./errors.ts";
import { inParallel } from "./in-parallel.ts";
import { layout, sha256 } from "./layout.ts";
import { type KnownManifest, objectsIn, readParsed, referTo } from "./objects.ts";
import type { Storage } from "./storage.ts";

// A manifest of 100,000,000 markets names 6,700 segments. They are cut into lists by the roots of the segments, so that
// a list whose segments stay the same keeps its name from snapshot to snapshot.

/** On average, one segment in this many ends a list. */
const listModulus = 32;

/** Divides a manifest into what is stored: its own object, and its parts by key. */
export function divideManifest({ segments, scores, ...rest }: Omit<Manifest, "parts" | "lists">): {
  manifest: Manifest;
  stored: Buffer;
  parts: Map<string, Buffer>;
} {
  const parts = new Map<string, Buffer>();
  const put = (keyOf: (hash: string) => string, text: string): ObjectRef => {
    const bytes = Buffer.from(text);
    const ref = referTo(bytes);
    parts.set(keyOf(ref.hash), bytes);
    return ref;
  };
  const lists = cutLists(segments);
  const refs = lists.map((list) =>
    put(layout.segmentList, JSON.stringify({ formatVersion, segments: list })),
  );
  const parted = { lists: refs, scores: put(layout.scoreLines, scoreText(scores)) };
  const root: ManifestRoot = { ...rest, parts: parted };
  return { manifest: { ...root, lists, segments, scores }, stored: Buffer.from(JSON.stringify(root)), parts };
}

function cutLists(segments: readonly SegmentRef[]): SegmentRef[][] {
  const lists: SegmentRef[][] = [];
  let open: SegmentRef[] = [];
  for (const segment of segments) {
    open.push(segment);
    const ends = Number.parseInt(segment.root.slice(0, 2), 16) % listModulus === 0;
    if (!ends && open.length < maxListed) continue;
    lists.push(open);
    open = [];
  }
  return open.length > 0 ? [...lists, open] : lists;
}

/** Names a manifest, and says what it amounts to. */
export interface Named extends Pick<Commit, "manifest"> {
  entry: Pick<CommitEntry, "feedVersion" | "counts">;
}

/**
 * Parts that `near` has too are taken from there, and shared in memory. Throws FormatError where this program does not
 * know the version of the format or of the feed.
 */
export async function readManifest(storage: Storage, named: Named, near?: Manifest): Promise<Manifest> {
  const lost = (error: Error) => {
    throw error;
  };
  return (await readParts(storage, named, lost, near)) as Manifest;
}

/**
 * Reads what it can of the parts; throws only where the manifest itself cannot be read. `lost` is called for each part
 * that is lost or damaged; it may throw. `near` is a manifest at hand that may share parts with this one.
 */
export async function readParts(
  storage: Storage,
  { manifest, entry }: Named,
  lost: (error: CorruptObjectError | MissingObjectError) => void,
  near?: Manifest,
): Promise<KnownManifest> {
  const [key, read] = [layout.manifest(manifest.hash), objectsIn(storage)];
  const root = await readParsed(read, layout.manifest, manifest);
  const { feedVersion } = entry;
  if (!isKnownFeed(feedVersion))
    throw new FormatError(
      key,
      `it has version ${feedVersion} of the feed, and this program knows ${feedVersions.join(", ")}: use a newer one`,
    );
  const { lists, scores: scoresRef } = root.parts;
  const readScores = async () => {
    const scoresKey = layout.scoreLines(scoresRef.hash);
    return readScoreText(scoresKey, await read(scoresKey, scoresRef));
  };
  const listByHash = new Map(near?.lists.map((list, index) => [near.parts.lists[index]!.hash, list]));
  let [segments, markets] = [0, 0];
  const unlessLost = <T>(work: Promise<T>) =>
    work.catch((error) => {
      if (!isLoss(error)) throw error;
      lost(error);
      return undefined;
    });
  const [scores, segmentLists] = await Promise.all([
    near?.parts.scores.hash === scoresRef.hash ? near.scores : unlessLost(readScores()),
    inParallel(lists, async (ref) => {
      const list =
        listByHash.get(ref.hash) ?? (await unlessLost(readParsed(read, layout.segmentList, ref)))?.segments;
      segments += list?.length ?? 0;
      if (segments > maxSegments)
        throw new CorruptObjectError(key, `it has more than ${maxSegments} segments`);
      for (const segment of list ?? []) markets += segment.markets;
      return list;
    }),
  ]);
  if (!segmentLists.includes(undefined) && markets !== entry.counts.markets)
    throw new CorruptObjectError(key, "its lists do not have as many markets as the commit says");
  return { ...root, lists: segmentLists, segments: segmentLists.flatMap((list) => list ?? []), scores };
}

/** The part of a commit's entry that follows from its snapshot. */
export type SnapshotEntry = Omit<CommitEntry, "commit" | "publishedAt" | "withdrawn">;

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

/** The first words of protocols' lines, and the members of ScoreRefs that hold what they name. */
const kinds = { score: "records", history: "histories", dimensions: "dimensions" } as const;

/** The leaves of the scores tree, one line for each object (snapshots/SPEC.md, "Roots"). */
export function scoreLines(scores: ScoreRefs): string[] {
  const linesOf = ([word, kind]: [string, (typeof kinds)[keyof typeof kinds]]) =>
    slugsOf(scores[kind]).map((slug) => `${word} ${slug} ${scores[kind][slug]?.hash}`);
  return [`scores ${scores.list.hash}`, ...Object.entries(kinds).flatMap(linesOf)];
}

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
