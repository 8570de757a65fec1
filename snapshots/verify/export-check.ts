import { createHash } from "node:crypto";
import type { ChangeFiles, Commit, ExportRecord, ParquetFile } from "../../schemas/store/snapshot.ts";
import { readChunkHashes, readChunks } from "../export/chunks.ts";
import { readChanges, readExport } from "../export/export-records.ts";
import { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { hashIn, layout } from "../store/layout.ts";
import type { Storage } from "../store/storage.ts";
import type { Trust } from "../trust/trust.ts";
import type { StoreCheck } from "./store-check.ts";

/**
 * Checks the records of all exports and exported changes, and every byte of their files. `commits` are by number.
 * Records must have a signature that `trust` accepts.
 */
export async function checkExports(
  check: StoreCheck,
  commits: ReadonlyMap<number, Commit>,
  trust: Trust | undefined,
): Promise<void> {
  const { storage } = check;
  const checked = new Set<string>();
  const checkAll = (prefix: string, read: (key: string) => Promise<ExportRecord | ChangeFiles>) =>
    check.each(storage.list(prefix), async ({ key, bytes }, part) => {
      const record = await part.attempt(() => read(key));
      if (record) part.count(key, bytes);
      for (const file of record?.files ?? []) {
        if (checked.has(file.hash)) continue;
        checked.add(file.hash);
        await part.attempt(() => checkFile(part, file));
      }
    });
  await checkAll(layout.exportedChanges.prefix, (key) => readChangesRecord(storage, key, trust));
  await checkAll(layout.exportRecord.prefix, (key) => readRecord(storage, key, commits, trust));
}

async function readChangesRecord(
  storage: Storage,
  key: string,
  trust: Trust | undefined,
): Promise<ChangeFiles> {
  const record = await readChanges(storage, hashIn(key));
  if (!record) throw new MissingObjectError(key);
  const refusal = trust?.changes(record);
  if (refusal) throw new CorruptObjectError(key, refusal.reason);
  return record;
}

async function readRecord(
  storage: Storage,
  key: string,
  commits: ReadonlyMap<number, Commit>,
  trust: Trust | undefined,
): Promise<ExportRecord> {
  const record = await readExport(storage, hashIn(key));
  if (!record) throw new MissingObjectError(key);
  const refusal = trust?.export(record);
  if (refusal) throw new CorruptObjectError(key, refusal.reason);
  const commit = commits.get(record.commit);
  const rows = record.files.reduce((sum, file) => sum + file.rows, 0);
  // Commits before the oldest one in the store may be gone.
  const agrees = commit
    ? commit.entry.snapshotId === record.snapshotId &&
      commit.entry.archiveRoot === record.archiveRoot &&
      commit.entry.publishedAt === record.publishedAt &&
      commit.entry.counts.markets === rows
    : record.commit < (commits.keys().next().value ?? Number.POSITIVE_INFINITY);
  if (!agrees) throw new CorruptObjectError(key, "it disagrees with its commit");
  return record;
}

async function checkFile(check: StoreCheck, file: ParquetFile): Promise<void> {
  const key = layout.exportFile(file.hash);
  const hashes = await readChunkHashes(check.storage, file);
  check.count(layout.exportChunks(file.chunks.hash), hashes.length);
  const whole = createHash("sha256");
  for await (const bytes of readChunks(check.storage, file, hashes, { from: 0, to: file.bytes }))
    whole.update(bytes);
  if (whole.digest("hex") !== file.hash)
    throw new CorruptObjectError(key, "its content does not match its name");
  check.count(key, file.bytes);
}
