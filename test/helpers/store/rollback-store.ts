import { expect } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { publicNames } from "../../../snapshots/publish/public/mutable-objects.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf } from "../publish/records.ts";
import { linkedStore } from "./linked-store.ts";

/** When these tests roll back. */
export const later = new Date("2026-03-02T00:00:00.000Z");

/** The content of a commit: its markets and the bri of its protocols. */
export const contents = {
  A: [recordsOf(0, 120), 600],
  B: [recordsOf(0, 150), 650],
  C: [recordsOf(20, 180), 700],
  D: [recordsOf(10, 200), 600],
} as const;
export type Content = keyof typeof contents;

/** Publishes one of the contents. */
export function publishContent(storage: Storage, name: Content, resume = false) {
  const [markets, bri] = contents[name];
  return publishRecords(storage, markets, bri, { resume });
}

/** A store below the folder whose commits, from 1, have these contents. */
export async function storeOf(folder: string, ...names: readonly Content[]): Promise<Storage> {
  return linkedStore(folder, names.join(""), async (storage) => {
    for (const content of names) await publishContent(storage, content);
  });
}

/** Rolls back a day after all runs. */
export const rollBack = (storage: Storage, target: string | number) =>
  rollback(storage, String(target), () => later);
/** Id of the current snapshot. */
export const snapshotOf = async (storage: Storage) => (await newestCommit(storage))!.entry.snapshotId;

/** The store is whole, and everything in it that names a newest commit names this one. */
export async function expectShown(storage: Storage, commit: number): Promise<void> {
  const newest = await newestCommit(storage);
  expect(newest?.entry.commit).toBe(commit);
  for (const [key, ref] of publicNames(await readManifest(storage, newest!))) {
    expect(sha256((await storage.get(key))!), key).toBe(ref.hash);
  }
  expect((await verify(storage, () => {})).faults).toEqual([]);
}
