import type { ChangeFiles, ExportRecord, ParquetFile } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, unless } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readRecord } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";

export const exportFileName = (index: number) => `markets-${String(index + 1).padStart(4, "0")}.parquet`;

/** Undefined when there is no such record. */
export async function readExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  const record = await readRecord(storage, layout.exportRecord, [snapshotId]);
  if (record && record.snapshotId !== snapshotId)
    throw new CorruptObjectError(layout.exportRecord(snapshotId), "it is of another snapshot");
  return record;
}

/** Undefined also when the record is damaged. */
export function readSoundExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  return unless(CorruptObjectError, () => readExport(storage, snapshotId));
}

/** Undefined when there is no such record. */
export async function readChanges(storage: Storage, changes: string): Promise<ChangeFiles | undefined> {
  const record = await readRecord(storage, layout.exportedChanges, [changes]);
  if (record && record.changes !== changes)
    throw new CorruptObjectError(layout.exportedChanges(changes), "it is of another change");
  return record;
}

/** Undefined also when the record is damaged. */
export function readSoundChanges(storage: Storage, changes: string): Promise<ChangeFiles | undefined> {
  return unless(CorruptObjectError, () => readChanges(storage, changes));
}

/** The keys of the record, its files and their chunks. */
export async function keysOfChanges(storage: Storage, changes: string): Promise<string[]> {
  const { files = [] } = (await readSoundChanges(storage, changes)) ?? {};
  return [layout.exportedChanges(changes), ...objectsOf(files)];
}

export const objectsOf = (files: readonly ParquetFile[]) =>
  files.flatMap(({ hash, chunks }) => [layout.exportFile(hash), layout.exportChunks(chunks.hash)]);
