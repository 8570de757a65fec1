import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { GrowingTree, leafHash } from "../../../snapshots/format/tree.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import {
  appendCommit,
  newestCommit,
  publicationTime,
  readLog,
} from "../../../snapshots/store/log/commits.ts";
import { entryOf } from "../../../snapshots/store/log/tiles.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";

const start = Date.parse("2026-01-01T00:00:00.000Z");
const minute = 60_000;

/** When the commit of a number is published. */
export const timeOf = (number: number) => new Date(start + number * minute).toISOString();

const trees = new WeakMap<Storage, { tree: GrowingTree; last: string | null }>();

/** The head of the tree over all entries up to a commit, in hexadecimal; it writes no tiles. */
export async function treeBefore(storage: Storage, newest: Commit | undefined): Promise<string> {
  let known = trees.get(storage);
  if (!known || (known.last !== newest?.digest && known.last !== newest?.previous))
    known = { tree: new GrowingTree(), last: null };
  const missing =
    known.last === newest?.digest
      ? []
      : newest && known.last === newest.previous
        ? [newest]
        : await readLog(storage);
  for (const commit of missing) known.tree.append(leafHash(entryOf(commit)));
  trees.set(storage, { ...known, last: newest?.digest ?? null });
  return known.tree.head().toString("hex");
}

/** Adds a commit a minute after the one before; what it refers to does not exist. */
export async function append(
  storage: Storage,
  changes: { withdrawn?: [number, number][]; seed?: string } = {},
): Promise<Commit> {
  const before = await newestCommit(storage);
  const commit = (before?.entry.commit ?? 0) + 1;
  const hash = sha256(`${changes.seed ?? ""}${commit}`);
  return appendCommit(storage, {
    formatVersion,
    entry: {
      commit,
      feedVersion: "test",
      snapshotId: hash,
      archiveRoot: hash,
      scoresRoot: hash,
      indexRoot: hash,
      counts: { markets: commit, protocols: 1 },
      publishedAt: publicationTime(storage, before, { now: () => new Date(timeOf(commit)) }),
      withdrawn: changes.withdrawn ?? before?.entry.withdrawn ?? [],
    },
    manifest: { hash, bytes: 1 },
    changes: null,
    changeCounts: null,
    size: { objects: 1, bytes: 1 },
    hold: false,
    previous: before?.digest ?? null,
    tree: await treeBefore(storage, before),
  });
}
