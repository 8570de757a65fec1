import { Checked, type Manifest } from "../../schemas/snapshot.ts";
import { newestCommit, readCommit } from "../commits.ts";
import { layout } from "../layout.ts";
import { CorruptObjectError, seal, unseal } from "../seal.ts";
import type { Storage } from "../storage/storage.ts";
import { projectPublicNames } from "./projection.ts";

/**
 * Brings the hint and the public names to the newest commit, and returns its number. Every part may be repeated by the
 * next run, and no reader of snapshots needs any of it. `shown` is what the names are known to show.
 */
export async function showNewest(storage: Storage, shown: Manifest | undefined): Promise<number> {
  const newest = await newestCommit(storage);
  if (newest) await storage.put(layout.head, seal({ commit: newest.commit }));
  return projectPublicNames(storage, shown);
}

/** Ends a publish run that succeeded. `before` is the manifest of the commit that was current before it. */
export async function finishRun(
  storage: Storage,
  before: Manifest | undefined,
  outcome: Checked["outcome"],
  now: Date,
): Promise<void> {
  const commit = await showNewest(storage, await shownBy(storage, await readChecked(storage), before));
  await storage.put(layout.checked, seal({ checkedAt: now.toISOString(), commit, outcome }));
}

/** The newest run's record; undefined when there is none that can be read. */
async function readChecked(storage: Storage): Promise<Checked | undefined> {
  const bytes = await storage.get(layout.checked, { maxBytes: 4096 });
  try {
    return bytes && unseal(layout.checked, bytes, Checked);
  } catch (error) {
    if (error instanceof CorruptObjectError) return undefined;
    throw error;
  }
}

/** The manifest that the public names show for certain: `before`, when the last run got to its end with it. */
async function shownBy(
  storage: Storage,
  checked: Checked | undefined,
  before: Manifest | undefined,
): Promise<Manifest | undefined> {
  const commit = checked && (await readCommit(storage, checked.commit));
  return commit && commit.snapshotId === before?.snapshotId ? before : undefined;
}
