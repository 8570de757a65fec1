import type { Commit, ExportRecord } from "../../schemas/store/snapshot.ts";
import { hashIn, layout } from "../store/layout.ts";
import type { Storage } from "../store/storage.ts";
import type { Trust } from "../trust/trust.ts";
import { objectsOf, readSoundExport } from "./export-records.ts";

/** The newest exports that gc always keeps. */
const newestExports = 2;

/**
 * Without those that a rollback withdrew, newest first. `newest` is the store's newest commit. Leaves out damaged
 * records, and with `trust` those that no trusted key signed.
 */
export async function soundExports(
  storage: Storage,
  newest: Pick<Commit, "withdrawn"> | undefined,
  trust: Trust | undefined,
): Promise<ExportRecord[]> {
  const records: ExportRecord[] = [];
  for await (const { key } of storage.list(layout.exportRecord.prefix)) {
    const record = await readSoundExport(storage, hashIn(key));
    if (record && !trust?.export(record)) records.push(record);
  }
  const isWithdrawn = ({ commit }: ExportRecord) =>
    (newest?.withdrawn ?? []).some(([first, last]) => first <= commit && commit <= last);
  return records.filter((record) => !isWithdrawn(record)).sort((a, b) => b.commit - a.commit);
}

/** The keys that a collection keeps: the newest sound exports, and those of `snapshots`. */
export async function keptExports(
  storage: Storage,
  newest: Commit | undefined,
  snapshots: ReadonlySet<string>,
  trust: Trust | undefined,
): Promise<string[]> {
  const listed = await soundExports(storage, newest, trust);
  return listed
    .filter(({ snapshotId }, index) => index < newestExports || snapshots.has(snapshotId))
    .flatMap(keysOf);
}

const keysOf = ({ snapshotId, files }: ExportRecord): string[] => [
  layout.exportRecord(snapshotId),
  ...objectsOf(files),
];
