import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../schemas/errors.ts";
import type {
  ChangeFiles,
  ChangeRecord,
  Commit,
  ExportFile,
  ExportRecord,
  Manifest,
  ParquetFile,
  SegmentRef,
} from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { type ChangePart, changeParts } from "../changes/record.ts";
import {
  newestExports,
  objectsOf,
  putFile,
  readExports,
  readSound,
  soundExports,
} from "../export/export-records.ts";
import {
  checkParquet,
  fileStats,
  openTexts,
  valueSeparator,
  writeParquet,
  writeTexts,
} from "../export/parquet-file.ts";
import { type Page, separator } from "../format/page.ts";
import { rootOver } from "../format/tree.ts";
import { readPages } from "../index/segment.ts";
import { updateMutableObjects } from "../publish/public/mutable-objects.ts";
import { CorruptObjectError, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inOrder } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { isWithdrawn, logFrom } from "../store/log/commits.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { readManifest } from "../store/manifest.ts";
import { objectsIn, readObject, readParsed } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { readRunLog, requireKey, type Signing, trustOf } from "../trust/log/believe.ts";
import { sealSigned } from "../trust/notes/signed-note.ts";
import { findCommit } from "./commits.ts";

export interface ExportOptions {
  /** A folder for temporary files, without symbolic links in its path. Each file takes up to 300 MB. */
  temporaryDirectory: string;
  progress: (step: string, done: number, of: number) => void;
  /** The most text in a file, in bytes. Tests set fewer than the format allows. */
  maxTextBytes?: number;
  /** Also writes what commits changed, back to the last one whose changes or whose snapshot is exported. */
  changes?: boolean;
  /** Signs the record. Records that this does not trust are not built on. */
  signing?: Signing;
}

/** `target` is a commit number, or the first 8 or more digits of a snapshot id; the newest snapshot by default. */
export async function exportSnapshot(storage: Storage, target: string | undefined, options: ExportOptions) {
  const { signing = {} } = options;
  const { newest } = await readRunLog(storage, signing);
  if (!newest) throw new Fault("EXPORT_REFUSED", `${storage.location}: nothing has been published yet`);
  requireKey(storage, newest, signing);
  const commit = target === undefined ? newest : await findCommit(storage, target, newest);
  if (isWithdrawn(commit.entry.commit, newest.entry))
    throw new Fault(
      "EXPORT_REFUSED",
      `commit ${commit.entry.commit} was withdrawn by a rollback; give another snapshot`,
    );
  try {
    if (options.changes) await exportChanges(storage, commit, options);
    const report = await exportCommit(storage, commit, newest, options);
    // The description of the public data names the exported files.
    await updateMutableObjects(storage, { signing }, { commit: newest });
    return report;
  } catch (error) {
    const gone = error instanceof MissingObjectError && error.key === layout.manifest(commit.manifest.hash);
    if (!gone) throw error;
    throw new Fault(
      "EXPORT_REFUSED",
      `the snapshot of commit ${commit.entry.commit} was collected; give a newer one`,
    );
  }
}

/**
 * Writes the archive of a commit's snapshot into Parquet files (snapshots/PUBLISHING.md, "Exports"). Files that
 * one of the newest exports has of the same pages are used again. Each new one is read back before it is put, and again
 * from the store; only then does a record list all of them.
 */
async function exportCommit(storage: Storage, commit: Commit, newest: Commit, options: ExportOptions) {
  const { snapshotId, archiveRoot, publishedAt } = commit.entry;
  const { signing = {}, temporaryDirectory } = options;
  const trust = trustOf(signing);
  const stored = await storedFiles(storage);
  // A record that is damaged or not signed is made anew.
  const before = await readSound(storage, layout.exportRecord, snapshotId, trust);
  const report = (outcome: "exported" | "unchanged", files: readonly ExportFile[], added: typeof files) => ({
    outcome,
    snapshotId,
    commit: commit.entry.commit,
    rows: files.reduce((sum, { rows }) => sum + rows, 0),
    total: sizeOf(files),
    /** The other files are those of an earlier export. */
    uploaded: sizeOf(added),
  });
  // A record with a later commit of the snapshot stays. The earlier number would make another export one of the newest
  // two, which a collection may be about to delete.
  if (
    before &&
    before.commit >= commit.entry.commit &&
    !isWithdrawn(before.commit, newest.entry) &&
    before.files.every((file) => isStored(file, stored) && file.stats)
  )
    return report("unchanged", before.files, []);

  const manifest = await readManifest(storage, commit);
  if (rootOver("archive", manifest.segments).toString("hex") !== archiveRoot)
    throw new CorruptObjectError(
      layout.manifest(commit.manifest.hash),
      "its segments give another archive root",
    );
  const plan = await planFiles(storage, manifest, options.maxTextBytes);
  const exports = (await soundExports(storage, newest.entry, trust)).slice(0, newestExports);
  // Files by the root of their pages, from which they were made. Nobody reads them again to check that, so the exports
  // must be trusted. They must be exports that stay: a collection may delete the files of others until the new record
  // is there.
  const usable = exports
    .flatMap((record) => record.files)
    .filter((file) => isStored(file, stored) && file.stats);
  const fileByRoot = new Map(usable.map((file) => [file.root, file]));
  const missing = plan.filter(({ root }) => !fileByRoot.has(root));
  const added: ExportFile[] = [];
  const tell = () =>
    options.progress("exporting files", plan.length - missing.length + added.length, plan.length);
  tell();
  const prepare = async ([index, { rows, root, ranges }]: [number, PlannedFile]) => {
    // One is read while the next one is written.
    const path = join(temporaryDirectory, `markets-${index % 2}.ndjson`);
    const texts = await writeTexts(path, storage, pagesOfFile(storage, ranges));
    return { path, texts, rows, root };
  };
  for await (const { path, texts, ...planned } of inOrder(missing.entries(), prepare, { concurrency: 1 })) {
    const parquet = join(temporaryDirectory, "markets.parquet");
    await writeParquet(path, parquet, temporaryDirectory, texts.blocks);
    await rm(path);
    const what = ["an exported file", "the page it was made from"] as const;
    await checkParquet(parquet, temporaryDirectory, texts.leaves, what);
    const stats = await fileStats(parquet, temporaryDirectory);
    added.push({ ...(await putFile(storage, parquet)), ...planned, stats });
    await rm(parquet);
    tell();
  }
  for (const file of added) fileByRoot.set(file.root, file);
  const files = plan.map(({ root }) => fileByRoot.get(root)!);
  const key = layout.exportRecord(snapshotId);
  await refuseCollected(storage, new Set(objectsOf(files)), [key]);
  const record: Omit<ExportRecord, "digest"> = {
    formatVersion,
    commit: commit.entry.commit,
    snapshotId,
    archiveRoot,
    publishedAt,
    files,
  };
  await storage.put(key, sealSigned(signing.key, key, record));
  return report("exported", files, added);
}

/**
 * Writes the changes of a commit and of those before it, back to one whose changes are there or whose snapshot is
 * exported, or until a change record or commit is gone. The oldest come first, and all before the export, so that a run
 * that breaks off leaves no gap behind those that are there.
 */
async function exportChanges(storage: Storage, newest: Commit, options: ExportOptions): Promise<void> {
  const trust = trustOf(options.signing ?? {});
  const stored = await storedFiles(storage);
  const exported = new Set<number>();
  for await (const { commit } of readExports(storage, trust)) exported.add(commit);
  const missing: { hash: string; record: ChangeRecord }[] = [];
  await unless(ObjectError, async () => {
    for await (const { entry, changes } of logFrom(storage, newest)) {
      if (entry.commit < newest.entry.commit && exported.has(entry.commit)) return;
      if (!changes) continue;
      const { hash } = changes;
      const changeFiles = await readSound(storage, layout.exportedChanges, hash, trust);
      if (changeFiles?.files.every((file) => isStored(file, stored))) return;
      missing.push({ hash, record: await readParsed(objectsIn(storage), layout.changeRecord, changes) });
    }
  });
  for (const { hash, record } of missing.reverse()) await writeChangeFiles(storage, hash, record, options);
}

/**
 * Writes a change record as Parquet files with the columns of an export and one for what happened. Each file is read
 * back before it is put; the record, which names all, is put last.
 */
async function writeChangeFiles(
  storage: Storage,
  changes: string,
  record: ChangeRecord,
  { temporaryDirectory, signing = {} }: ExportOptions,
): Promise<void> {
  const text = join(temporaryDirectory, "changes.ndjson");
  const parquet = join(temporaryDirectory, "changes.parquet");
  const files: ParquetFile[] = [];
  await using changed = changedLines(storage, record);
  try {
    for (let next = await changed.next(); !next.done; ) {
      let bytes = 0;
      await using texts = await openTexts(text);
      for (; !next.done && bytes < maxTextBytes; next = await changed.next()) {
        const { type, lines } = next.value;
        await texts.add(lines, Buffer.from(`${type}${valueSeparator}`));
        bytes += lines.reduce((sum, { length }) => sum + length, 0);
      }
      await texts.close();
      const { leaves, blocks } = texts;
      await writeParquet(text, parquet, temporaryDirectory, blocks, { changes: true });
      await checkParquet(parquet, temporaryDirectory, leaves, ["a file of changes", "the change record"]);
      files.push({ ...(await putFile(storage, parquet)), rows: leaves.length });
      await rm(parquet);
    }
  } finally {
    await rm(text, { force: true });
  }
  await refuseCollected(storage, new Set(objectsOf(files)));
  const content: Omit<ChangeFiles, "digest"> = { formatVersion, changes, files };
  const key = layout.exportedChanges(changes);
  await storage.put(key, sealSigned(signing.key, key, content));
}

/** The texts of a change record by what happened to the market, first those that went, then those that came. */
async function* changedLines(storage: Storage, record: ChangeRecord) {
  const partsOf = (side: "before" | "after") => changeParts(objectsIn(storage), record[side]);
  const idOf = (part: ChangePart, line: number) => part.row(line).toString("latin1", 0, 16);
  const came = new Set<string>();
  for await (const part of partsOf("after"))
    for (let line = 0; line < part.lines; line += 1) came.add(idOf(part, line));
  const updated = new Set<string>();
  const typesOf = { before: ["update_preimage", "delete"], after: ["update_postimage", "insert"] } as const;
  for (const side of ["before", "after"] as const) {
    for await (const part of partsOf(side)) {
      const { updates = [], others = [] } = Object.groupBy(part.checked(), (_, line) => {
        const id = idOf(part, line);
        if (side === "before" && came.has(id)) updated.add(id);
        return updated.has(id) ? "updates" : "others";
      });
      const [update, other] = typesOf[side];
      if (updates.length > 0) yield { type: update, lines: updates.map(({ line }) => line) };
      if (others.length > 0) yield { type: other, lines: others.map(({ line }) => line) };
    }
  }
}

function sizeOf(files: readonly ExportFile[]) {
  return { objects: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}

async function storedFiles(storage: Storage): Promise<Map<string, number>> {
  const stored = new Map<string, number>();
  for (const prefix of [layout.exportFile.prefix, layout.exportChunks.prefix])
    for await (const { key, bytes } of storage.list(prefix)) stored.set(key, bytes);
  return stored;
}

function isStored({ hash, bytes, chunks }: ParquetFile, stored: ReadonlyMap<string, number>): boolean {
  const isChunked = stored.get(layout.exportChunks(chunks.hash)) === chunks.bytes;
  return isChunked && stored.get(layout.exportFile(hash)) === bytes;
}

/** The pages of a segment from `from` (inclusive) to `to` (exclusive), counted from the oldest. */
interface PageRange {
  segment: SegmentRef;
  from: number;
  to: number;
}

/** The most text of a file, apart from its last page or part. It bounds memory and temporary files. */
const maxTextBytes = 256 * 1024 * 1024;
/** One in this many segments ends a file, chosen by its root, so that files of old markets stay the same. */
const segmentsPerFile = 4;

type PlannedFile = Awaited<ReturnType<typeof planFiles>>[number];

/**
 * The files of an archive before they are made, newest markets first: their pages from the oldest up, and the root of a
 * tree over them. Checks the roots of the segments by those of the pages on the way.
 */
async function planFiles(storage: Storage, manifest: Manifest, maxBytes = maxTextBytes) {
  const files: { ranges: PageRange[]; rows: number; root: string }[] = [];
  let [open, pages, bytes]: [PageRange[], Page[], number] = [[], [], 0];
  const close = () => {
    const rows = pages.reduce((sum, page) => sum + page.markets, 0);
    files.push({ ranges: open, rows, root: rootOver("segment", pages).toString("hex") });
    [open, pages, bytes] = [[], [], 0];
  };
  for (const segment of manifest.segments) {
    const table = await pagesOf(storage, segment);
    let from = 0;
    for (const [index, page] of table.entries()) {
      pages.push(page);
      bytes += page.runs.reduce((sum, run) => sum + run.rawBytes, page.markets * separator.length);
      const last = index === table.length - 1;
      if (!last && bytes < maxBytes) continue;
      open.push({ segment, from, to: index + 1 });
      from = index + 1;
      if (bytes >= maxBytes || Number.parseInt(segment.root.slice(0, 4), 16) % segmentsPerFile === 0) close();
    }
  }
  if (pages.length > 0) close();
  return files.reverse();
}

/** From the newest to the oldest. */
async function* pagesOfFile(storage: Storage, ranges: readonly PageRange[]): AsyncGenerator<Page> {
  for (const { segment, from, to } of ranges.toReversed())
    yield* (await pagesOf(storage, segment)).slice(from, to).reverse();
}

async function pagesOf(storage: Storage, ref: SegmentRef): Promise<Page[]> {
  const key = layout.segment(ref.hash);
  const pages = readPages(key, await readObject(storage, key, ref));
  if (rootOver("segment", pages).toString("hex") !== ref.root)
    throw new CorruptObjectError(key, "its root is not the manifest's");
  return pages;
}
