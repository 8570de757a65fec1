import { ExportRecord } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, unless } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { unseal } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";

/** Room for the files of hundreds of millions of markets. */
const maxRecordBytes = 4 * 1024 * 1024;

/** The name of a file of an export, by its place. */
export const exportFileName = (index: number) => `markets-${String(index + 1).padStart(4, "0")}.parquet`;

/** Reads the record of a snapshot's export; undefined when there is none. */
export async function readExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  const key = layout.exportRecord(snapshotId);
  const bytes = await storage.get(key, { maxBytes: maxRecordBytes });
  if (!bytes) return undefined;
  const record = unseal(key, bytes, ExportRecord);
  if (record.snapshotId !== snapshotId) throw new CorruptObjectError(key, "it is of another snapshot");
  return record;
}

/** The same; undefined when the record is damaged, too. */
export function readSoundExport(storage: Storage, snapshotId: string): Promise<ExportRecord | undefined> {
  return unless(CorruptObjectError, () => readExport(storage, snapshotId));
}
