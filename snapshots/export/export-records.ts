import type { ChangeFiles, ExportRecord, ParquetFile } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, unless } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readRecord } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";

/** The name of a file of an export, by its place. */
export const exportFileName = (index: number) => `markets-${String(index + 1).padStart(4, "0")}.parquet`;

/** Reads the record of a snapshot's export; undefined when there is none. */
export async function readExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  const record = await readRecord(storage, layout.exportRecord, [snapshotId]);
  if (record && record.snapshotId !== snapshotId)
    throw new CorruptObjectError(layout.exportRecord(snapshotId), "it is of another snapshot");
  return record;
}

/** The same; undefined when the record is damaged, too. */
export function readSoundExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  return unless(CorruptObjectError, () => readExport(storage, snapshotId));
}

/** Reads the record of a change as Parquet files; undefined when there is none. */
export async function readChanges(storage: Storage, changes: string): Promise<ChangeFiles | undefined> {
  const record = await readRecord(storage, layout.exportedChanges, [changes]);
  if (record && record.changes !== changes)
    throw new CorruptObjectError(layout.exportedChanges(changes), "it is of another change");
  return record;
}

/** The same; undefined when the record is damaged, too. */
export function readSoundChanges(storage: Storage, changes: string): Promise<ChangeFiles | undefined> {
  return unless(CorruptObjectError, () => readChanges(storage, changes));
}

/** The keys of such a record, and of its files and their chunks. */
export async function keysOfChanges(storage: Storage, changes: string): Promise<string[]> {
  const { files = [] } = (await readSoundChanges(storage, changes)) ?? {};
  return [layout.exportedChanges(changes), ...objectsOf(files)];
}

/** The keys of files and their chunks. */
export const objectsOf = (files: readonly ParquetFile[]) =>
  files.flatMap(({ hash, chunks }) => [layout.exportFile(hash), layout.exportChunks(chunks.hash)]);
