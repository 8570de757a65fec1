import { expect } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../publish/records.ts";
import { aroundCalls, memoryStorage } from "./storages.ts";
import { faultsOf } from "./verified.ts";

const first = recordsOf(0, 40);
/** The first content with two markets removed, two changed and some added: no more than the guards allow at once. */
const second = inArchiveOrder([
  ...first.slice(2).map((market, place) => (place % 20 ? market : { ...market, composite: 999 })),
  ...recordsOf(40, 50),
]);

/** Publishes the content that a store of these tests has before, or after; every public object is another. */
export const publishOld = (storage: Storage) => publishRecords(storage, first, 700);
export const publishNew = (storage: Storage) => publishRecords(storage, second, 710);

/** The snapshots of both, and a store that holds the old one. */
export interface OldAndNew {
  store: ReadonlyMap<string, Buffer>;
  old: string;
  new: string;
}

/** Publishes both contents in memory. */
export async function oldAndNew(): Promise<OldAndNew> {
  const objects = new Map<string, Buffer>();
  const { snapshotId: old } = await publishOld(memoryStorage(objects));
  const store = new Map(objects);
  return { store, old, new: (await publishNew(memoryStorage(objects))).snapshotId };
}

/** Fills an empty store. */
export async function fill(storage: Storage, objects: ReadonlyMap<string, Buffer>): Promise<void> {
  await Promise.all([...objects].map(([key, bytes]) => storage.put(key, bytes)));
}

/** The snapshot that a reader which starts now sees; undefined when it sees none. */
export async function seenBy(storage: Storage): Promise<string | undefined> {
  const catalog = new Catalog(storage, { cacheBytes: 1024 });
  await catalog.refresh();
  return catalog.current()?.commit.snapshotId;
}

/**
 * Checks that readers see one of these snapshots, whole to the last byte, whatever a publisher left unfinished. Returns
 * it. What the next run repairs may lag behind: the record of the run, the public log and names, and the site. But
 * every public name shows a whole record.
 */
export async function expectWhole(
  storage: Storage,
  ...snapshots: (string | undefined)[]
): Promise<string | undefined> {
  const seen = await seenBy(storage);
  expect(snapshots).toContain(seen);
  const faults = await faultsOf(storage);
  const behind = (key: string) =>
    key === layout.checked ||
    key.startsWith(layout.stableScore.prefix) ||
    key.startsWith(layout.logTile.prefix) ||
    publishedSite.keys.includes(key);
  expect(faults.filter(({ key }) => !behind(key))).toEqual([]);
  const hashes = new Set<string>();
  for await (const { key } of storage.list(layout.publicObject.prefix)) hashes.add(key.slice(-69, -5));
  for await (const { key } of storage.list(layout.stableScore.prefix)) {
    expect(hashes, key).toContain(sha256((await storage.get(key))!));
  }
  return seen;
}

/** Checks that everything in a store is in order and shows this snapshot. */
export async function expectAllGood(storage: Storage, snapshotId: string): Promise<void> {
  expect(await faultsOf(storage)).toEqual([]);
  expect(await seenBy(storage)).toBe(snapshotId);
}

/** What the storage of a process throws that has died. */
export class Crash extends Error {
  override readonly name = "Crash";
}

/** Calls `before` each operation on a storage, with its number from 0; it may throw. */
export function steppedStorage(storage: Storage, before: (n: number) => unknown): Storage {
  let operations = 0;
  return aroundCalls(storage, async (work) => {
    const n = operations;
    operations += 1;
    await before(n);
    return work();
  });
}
