import {
  type Checked,
  type Commit,
  type CommitEntry,
  type Manifest,
  maxSegments,
  type NamedObject,
  type ObjectRef,
  type Size,
  type SourceFiles,
} from "../../schemas/store/stored-objects.ts";
import { feedVersion, formatVersion } from "../../schemas/versions.ts";
import { type Changes, protocolChanges } from "../changes/summary.ts";
import { signExportsOf } from "../export/export-records.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import type { Sources } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import { appendCommit, type CommitContent, publicationTime } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { divideManifest, snapshotEntryOf } from "../store/manifest.ts";
import { namedBy, readObject, referTo } from "../store/objects.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import { lacksSignature, requireStillNewest, type Signing, signerOf } from "../trust/log/believe.ts";
import { sealSigned } from "../trust/notes/signed-note.ts";
import type { WrittenArchive } from "./archive-writer.ts";
import { type ArchiveChanges, requireAtMost } from "./guards.ts";
import { mendChanges } from "./mend-changes.ts";
import type { ObjectWriter } from "./object-writer.ts";
import type { Before, PreviousSnapshot } from "./previous-snapshot.ts";
import { treeBefore, type Witnessed } from "./public/log.ts";
import { namesOfProtocols, type SiteOptions, updateMutableObjects } from "./public/mutable-objects.ts";
import { objectsByHash, type ScoreObjects, writeScores } from "./score-objects.ts";

export interface CommitOptions extends SiteOptions {
  storage: Storage;
  now: () => Date;
  /** Does everything except writing to the store. */
  dryRun?: boolean;
  /** Called with what the operator should know before the commit is made. */
  warn?: (line: string) => void;
}

/** `fileRows` are in the order of the files. */
export interface SoundSources {
  sources: Pick<Sources, "files" | "scoreFiles" | "rowDigests">;
  fileRows: readonly number[];
  scores: ScoreObjects;
}

/** An archive whose pages and segments are written, with all that a run needs to make a snapshot of it. */
export interface MadeArchive extends SoundSources {
  archive: WrittenArchive;
  /** Counts and writes the objects of the snapshot, and holds what only a new commit may need. */
  objects: ObjectWriter;
  changes: ArchiveChanges;
}

export interface PublishReport {
  outcome: "published" | "unchanged" | "dry-run";
  /** Only in a dry run: whether a run that writes would make a commit. */
  wouldCommit?: boolean;
  /** After the run; 0 when there is no commit. */
  commit: number;
  snapshotId: string;
  counts: CommitEntry["counts"] & Record<"segments" | "pages", number>;
  /** Compared with the snapshot that was current before; null when a part of that is gone or damaged. */
  changes: Changes | null;
  /** Of what the run makes, or would make. "lost": the current commit was signed, and the new one is not. */
  signature: "signed" | "unsigned" | "lost";
  /** Segments of the snapshot before that lacked a column for a filter, and were made anew. */
  reindexed: number;
  /** Objects of the snapshot: uploaded by this run, there already, and both, which is the size of the commit. */
  uploaded: Size;
  unchanged: Size;
  total: Size;
  /** Uploaded beside the snapshot: the record of what it changes. */
  changeRecord: Size;
  /** What each witness of the publisher's policy answered. */
  witnessed: Witnessed[];
}

/**
 * Builds the snapshot of an archive and makes it the current one, unless the store already shows the same. Then brings
 * what is shown of the newest commit up to date.
 */
export async function commitSnapshot(
  options: CommitOptions,
  contents: MadeArchive,
  before: Before,
): Promise<PublishReport> {
  const { storage, now, dryRun = false, signing = {} } = options;
  const { log, previous } = before;
  const { newest: current } = log;
  const { objects, scores, archive } = contents;
  const run: Run = { ...options, ...contents, ...before };
  const built = await buildSnapshot(run);
  const { manifest, entry, changes } = built;
  const stays = staysCurrent(before, built, signing);
  const outcome = dryRun ? "dry-run" : stays ? "unchanged" : "published";
  const record = await writeManifest(run, built, stays);
  const newest = outcome === "published" ? await append(run, built, record) : current;
  let witnessed: Witnessed[] = [];
  if (newest && outcome !== "dry-run") {
    const atHand = {
      commit: newest,
      log: newest === current ? log : undefined,
      manifest,
      objects: objectsByHash(scores),
    };
    const checkedAt = now().toISOString();
    const update = await updateMutableObjects(storage, options, atHand);
    ({ witnessed } = update);
    const ran: Omit<Checked, "digest"> = { checkedAt, commit: update.commit, outcome };
    await storage.put(layout.checked, sealSigned(signing.key, layout.checked, ran));
    await mendChanges(outcome === "unchanged" ? before : undefined, newest, options);
  }
  const { uploaded, unchanged, total } = objects;
  return {
    outcome,
    ...(dryRun && { wouldCommit: !stays }),
    commit: newest?.entry.commit ?? 0,
    snapshotId: entry.snapshotId,
    counts: { ...entry.counts, segments: archive.segments.length, pages: archive.pages },
    changes,
    signature: signing.key ? "signed" : current?.note === undefined ? "unsigned" : "lost",
    reindexed: previous?.unindexed ?? 0,
    uploaded,
    unchanged,
    total,
    changeRecord: contents.changes.objects.total,
    witnessed,
  };
}

type Run = CommitOptions & MadeArchive & Before;

type BuiltSnapshot = Awaited<ReturnType<typeof buildSnapshot>>;

/** Writes the scores, builds the manifest, and compares both with the current snapshot. */
async function buildSnapshot(run: Run) {
  const { objects, sources, scores, archive } = run;
  const { segments, newestResolvedAt } = archive;
  requireAtMost(nameOfAll(sources.files, "markets"), segments.length, maxSegments, "segments");
  const { manifest, stored, parts } = divideManifest({
    formatVersion,
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    rowDigests: sources.rowDigests,
    scores: await writeScores(objects, scores),
    sources: holdSourceFiles(run),
    segments,
  });
  for (const [key, bytes] of parts) objects.hold(key, bytes);
  return {
    manifest,
    /** The manifest's own object. Its parts are held until it is written. */
    stored,
    ref: referTo(stored),
    entry: snapshotEntryOf(manifest, feedVersion),
    changes: await changesOf(run, manifest),
  };
}

/** Files are in the order of their hashes: that of their names may change, and does not matter. */
function holdSourceFiles({ objects, sources, fileRows }: MadeArchive): ObjectRef {
  const files = sources.files.map(({ name: _, unchanged: __, ...file }, index) => ({
    ...file,
    rows: fileRows[index]!,
  }));
  files.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const content: SourceFiles = { formatVersion, files };
  const bytes = Buffer.from(JSON.stringify(content));
  const ref = referTo(bytes);
  objects.hold(layout.sourceFiles(ref.hash), bytes);
  return ref;
}

async function changesOf(run: Run, { scores: { records } }: Manifest): Promise<Changes | null> {
  const { storage, changes, scores, log, previous } = run;
  const before = log.newest ? previous?.manifest.scores?.records : {};
  const markets = changes.markets();
  if (!before || !markets) return null;
  const own = objectsByHash(scores);
  const read = async (ref: NamedObject) =>
    own.get(ref.hash) ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
  return { markets, protocols: await protocolChanges(before, records, read) };
}

/** Whether the current commit stays, since it already shows what the run built. */
export function staysCurrent(
  { log: { newest: current }, previous }: Before,
  { entry, ref }: Pick<BuiltSnapshot, "entry" | "ref">,
  signing: Signing,
): boolean {
  if (!current) return false;
  // A rollback may have put publishing on hold, and the operator resumes it.
  if (current.hold || current.entry.snapshotId !== entry.snapshotId) return false;
  // Objects of the current snapshot may be lost, and those made in their place have other names.
  if (!previous?.complete && current.manifest.hash !== ref.hash) return false;
  // Segments may lack a column for a filter, and were made anew.
  return (previous?.unindexed ?? 0) === 0 && !lacksSignature(current, signing);
}

/**
 * Writes what is held, the record of changes and, last of all objects, the manifest. Returns the record of a snapshot
 * that gets a commit; null when there are no changes, or too many.
 */
async function writeManifest(run: Run, built: BuiltSnapshot, stays: boolean): Promise<ObjectRef | null> {
  const { storage, dryRun, objects, changes: archiveChanges, previous } = run;
  const { manifest, stored, ref, entry, changes } = built;
  // The store has what the current commit names: also the files that it was made from, which need not be this run's.
  const keepsManifest = stays && previous?.complete === true;
  if (!keepsManifest) await objects.writeHeld();
  const record =
    changes && !stays
      ? await archiveChanges.finishRecord(previous?.commit.entry.snapshotId, entry.snapshotId)
      : null;
  const written = objects.written.union(archiveChanges.objects.written);
  // Objects of the current snapshot are safe. A manifest must not be put while a collection is deleting its objects.
  if (!stays && !dryRun) await refuseCollected(storage, written, namesOfProtocols(manifest));
  if (keepsManifest) keepManifest(objects, previous!);
  else await objects.write(layout.manifest(ref.hash), stored);
  return record;
}

/** Counts the current commit's manifest, and what it names, as objects that stay. The run has counted rows itself. */
function keepManifest(objects: ObjectWriter, { commit, manifest, present }: PreviousSnapshot): void {
  const named = namedBy(manifest);
  for (const [key, bytes] of present) if (named.has(key) && !layout.rows.has(key)) objects.keep(key, bytes);
  objects.keep(layout.manifest(commit.manifest.hash), commit.manifest.bytes);
}

async function append(run: Run, built: BuiltSnapshot, record: ObjectRef | null): Promise<Commit> {
  const { storage, signing = {}, objects } = run;
  const { newest: current } = run.log;
  const { manifest, ref, entry, changes } = built;
  // Nothing was written yet, so probe now; the write also reveals a directory's clock.
  if (objects.written.size === 0) await probeConditionalWrites(storage);
  // Public names are written after the commit, so until then nothing but this check keeps them.
  await refuseCollected(storage, new Set([layout.manifest(ref.hash)]), namesOfProtocols(manifest));
  if (current) await signExportsOf(storage, current, signing);
  await requireStillNewest(storage, current, signing);
  const content: CommitContent = {
    formatVersion,
    entry: {
      commit: (current?.entry.commit ?? 0) + 1,
      ...entry,
      publishedAt: publicationTime(storage, current, run),
      withdrawn: current?.entry.withdrawn ?? [],
    },
    manifest: ref,
    changes: record,
    changeCounts: changes && countsIn(changes.markets),
    size: objects.total,
    hold: false,
    previous: current?.digest ?? null,
    tree: await treeBefore(storage, current),
  };
  return appendCommit(storage, content, signerOf(signing));
}

const countsIn = ({ added, changed, removed }: Changes["markets"]) => ({ added, changed, removed });
