import { type Commit, formatVersion } from "../../../schemas/snapshot.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { appendCommit, newestCommit, publishedAtAfter } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";

const start = Date.parse("2026-01-01T00:00:00.000Z");
const minute = 60_000;

/** When the commit of a number is published. */
export const timeOf = (number: number) => new Date(start + number * minute).toISOString();

/** Adds a commit a minute after the one before; what it refers to does not exist. */
export async function append(
  storage: Storage,
  changes: { withdrawn?: [number, number][]; seed?: string } = {},
): Promise<Commit> {
  const before = await newestCommit(storage);
  const commit = (before?.commit ?? 0) + 1;
  const hash = sha256(`${changes.seed ?? ""}${commit}`);
  return appendCommit(storage, {
    formatVersion,
    commit,
    feedVersion: "test",
    snapshotId: hash,
    archiveRoot: hash,
    scoresRoot: hash,
    indexRoot: hash,
    manifest: { hash, bytes: 1 },
    changes: null,
    changeCounts: null,
    counts: { markets: commit, protocols: 1, segments: 1, pages: 1 },
    size: { objects: 1, bytes: 1 },
    publishedAt: publishedAtAfter(before, new Date(timeOf(commit))),
    hold: false,
    withdrawn: changes.withdrawn ?? before?.withdrawn ?? [],
    previous: before?.digest ?? null,
  });
}
