import { feedVersion } from "../../schemas/envelopes.ts";
import { type Commit, formatVersion, type Manifest, type ObjectRef } from "../../schemas/snapshot.ts";
import { appendCommit, newestCommit } from "../commits.ts";
import type { Page } from "../format/page.ts";
import { snapshotIdOf } from "../identity.ts";
import { readPages } from "../index/segment.ts";
import { layout } from "../layout.ts";
import { readManifest, readObject } from "../objects.ts";
import { seal } from "../seal.ts";
import type { Sources } from "../sources/sources.ts";
import type { Storage } from "../storage/storage.ts";
import { ArchiveWriter, type WrittenArchive } from "./archive-writer.ts";
import { ExternalSort } from "./external-sort.ts";
import { ObjectWriter, type Tally } from "./object-writer.ts";
import { referTo, renderScores, type ScoreObjects } from "./score-objects.ts";

/** Markets per bucket of the external sort: some 50 MB of JSON text. */
const bucketMarkets = 16_384;

/** Another publisher took the commit number first. Nothing of it is lost; the next run goes on from there. */
export class CommitLostError extends Error {
  override readonly name = "CommitLostError";
}

/** What a publish run is given. */
export interface PublishOptions {
  sources: Sources;
  storage: Storage;
  /** A local folder for the external sort; it takes as much as the archive's JSON text. */
  temporaryDirectory: string;
  now: () => Date;
  dryRun: boolean;
  /** Told as work goes on; `of` is the count the step will reach. */
  progress: (step: string, done: number, of: number) => void;
}

/** What a publish run did. */
export interface PublishReport {
  outcome: "published" | "unchanged" | "dry-run";
  commit: number;
  snapshotId: string;
  counts: Manifest["counts"];
  uploaded: Tally;
  unchanged: Tally;
  total: Tally;
}

/** The snapshot that readers see now, as far as a publisher builds on it. */
interface Previous {
  commit: Commit;
  pages: Map<string, Page>;
  keys: Set<string>;
}

/**
 * Builds a snapshot and commits it: leaves, then manifest, then commit, then hint, then the public names.
 * Sources with the content of the current snapshot make no new commit.
 * Throws SourceRefusal, CommitLostError, CorruptObjectError or StorageError; readers then see what they saw before.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const { storage, sources, dryRun, now } = options;
  const previous = await readPrevious(storage);
  const scores = renderScores(await sources.scores());
  const objects = new ObjectWriter(storage, previous?.keys ?? new Set(), dryRun);
  const archive = await writeArchive(options, objects, previous?.pages ?? new Map());
  const manifest = await writeManifestLeaves(objects, archive, scores);
  const same = previous?.commit.snapshotId === manifest.snapshotId;
  if (dryRun || same) {
    const outcome = dryRun ? "dry-run" : "unchanged";
    if (!dryRun) await finish(storage, previous?.commit.commit ?? 0, manifest, scores, "unchanged", now());
    return report(outcome, previous?.commit.commit ?? 0, manifest, objects);
  }
  const manifestBytes = Buffer.from(JSON.stringify(manifest));
  const manifestRef = referTo(manifestBytes);
  await objects.write(layout.manifest(manifestRef.hash), manifestBytes);
  const commit = await commitSnapshot(storage, previous?.commit, manifest, manifestRef, now());
  await finish(storage, commit, manifest, scores, "published", now());
  return report("published", commit, manifest, objects);
}

async function readPrevious(storage: Storage): Promise<Previous | undefined> {
  const commit = await newestCommit(storage);
  if (!commit) return undefined;
  const manifest = await readManifest(storage, commit.manifest);
  const pages = new Map<string, Page>();
  const keys = new Set<string>();
  for (const segment of manifest.segments) {
    const key = layout.segment(segment.hash);
    keys.add(key);
    for (const page of readPages(key, await readObject(storage, key, segment))) {
      pages.set(page.rawDigest, page);
      keys.add(layout.page(page.hash));
    }
  }
  const { list, records } = manifest.scores;
  for (const { hash } of [list, ...Object.values(records)]) keys.add(layout.publicObject(hash));
  return { commit, pages, keys };
}

async function writeArchive(
  { sources, temporaryDirectory, progress }: PublishOptions,
  objects: ObjectWriter,
  known: ReadonlyMap<string, Page>,
): Promise<WrittenArchive> {
  const cutPoints = await sources.cutPoints(Math.ceil(sources.marketCount / bucketMarkets));
  const sort = await ExternalSort.create(temporaryDirectory, cutPoints);
  try {
    let done = 0;
    for await (const rows of sources.markets()) {
      sort.add(rows);
      done += rows.length;
      progress("reading markets", done, sources.marketCount);
    }
    // From here on every row has passed validation: only now does anything go to the store.
    const writer = new ArchiveWriter(objects, known);
    done = 0;
    for await (const markets of sort.sorted()) {
      await writer.add(markets);
      done += markets.length;
      progress("writing pages", done, sources.marketCount);
    }
    const written = await writer.finish();
    if (written.markets !== sources.marketCount) {
      throw new Error(`${written.markets} markets were read where the sources count ${sources.marketCount}`);
    }
    return written;
  } finally {
    await sort.close();
  }
}

async function writeManifestLeaves(
  objects: ObjectWriter,
  archive: WrittenArchive,
  scores: ScoreObjects,
): Promise<Manifest> {
  const put = async (bytes: Buffer) => {
    const ref = referTo(bytes);
    await objects.write(layout.publicObject(ref.hash), bytes);
    return ref;
  };
  const refs: Manifest["scores"] = { list: await put(scores.list), records: {} };
  for (const [slug, bytes] of scores.records) refs.records[slug] = await put(bytes);
  const { segments, pageDigests, markets, newestResolvedAt } = archive;
  return {
    formatVersion,
    feedVersion,
    snapshotId: snapshotIdOf({ pageDigests, scores: refs }),
    counts: { markets, protocols: scores.records.size, segments: segments.length, pages: pageDigests.length },
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    segments,
    scores: refs,
  };
}

async function commitSnapshot(
  storage: Storage,
  previous: Commit | undefined,
  manifest: Manifest,
  manifestRef: ObjectRef,
  now: Date,
): Promise<number> {
  const commit = (previous?.commit ?? 0) + 1;
  const { snapshotId, counts } = manifest;
  const publishedAt = now.toISOString();
  const content = { formatVersion, commit, snapshotId, manifest: manifestRef, counts, publishedAt } as const;
  const won = await appendCommit(storage, { ...content, previous: previous?.digest ?? null });
  if (!won) throw new CommitLostError(`${storage.location}: another publisher made commit ${commit} first`);
  return commit;
}

/** What follows a successful run; each part may be repeated by the next run, and none is needed by readers. */
async function finish(
  storage: Storage,
  commit: number,
  manifest: Manifest,
  scores: ScoreObjects,
  outcome: "published" | "unchanged",
  now: Date,
): Promise<void> {
  await storage.put(layout.head, seal({ commit }));
  await putUnlessEqual(storage, layout.stableScoreList, scores.list);
  for (const slug of Object.keys(manifest.scores.records)) {
    const bytes = scores.records.get(slug);
    if (bytes) await putUnlessEqual(storage, layout.stableScore(slug), bytes);
  }
  for await (const { key } of storage.list(layout.stableScores)) {
    const slug = /^public\/api\/v1\/scores\/(.+)\.json$/.exec(key)?.[1];
    if (slug !== undefined && !scores.records.has(slug)) await storage.delete(key);
  }
  await storage.put(layout.checked, seal({ checkedAt: now.toISOString(), commit, outcome }));
}

async function putUnlessEqual(storage: Storage, key: string, bytes: Buffer): Promise<void> {
  const stored = await storage.get(key).catch(() => undefined);
  if (!stored?.equals(bytes)) await storage.put(key, bytes);
}

function report(
  outcome: PublishReport["outcome"],
  commit: number,
  { snapshotId, counts }: Manifest,
  { uploaded, unchanged }: ObjectWriter,
): PublishReport {
  const total = { objects: uploaded.objects + unchanged.objects, bytes: uploaded.bytes + unchanged.bytes };
  return { outcome, commit, snapshotId, counts, uploaded, unchanged, total };
}
