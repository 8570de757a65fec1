import { Checked, type Commit, type Manifest } from "../../schemas/snapshot.ts";
import { newestCommit } from "../commits.ts";
import { layout } from "../layout.ts";
import { CorruptObjectError, seal, unseal } from "../seal.ts";
import type { Storage } from "../storage/storage.ts";
import { projectPublicNames } from "./projection.ts";
import { projectSite } from "./site.ts";

/**
 * Brings the hint and the public names to the newest commit, the site to this version's, and returns the commit's
 * number. Every part may be repeated by the next run, and no reader of snapshots needs any of it. `shown` is what the
 * names are known to show.
 */
export async function showNewest(storage: Storage, shown: Manifest | undefined): Promise<number> {
  const newest = await newestCommit(storage);
  if (newest) await storage.put(layout.head, seal({ commit: newest.commit }));
  const shows = await projectPublicNames(storage, shown);
  await projectSite(storage);
  return shows;
}

/** Ends a publish run that succeeded. `before` is the snapshot that was current before it. */
export async function finishRun(
  storage: Storage,
  before: { commit: Commit; manifest: Manifest } | undefined,
  outcome: Checked["outcome"],
  now: Date,
): Promise<void> {
  // The names show it for certain only when the last run got to its end with that very commit; rollbacks do not tell.
  const shown = before && (await readChecked(storage))?.commit === before.commit.commit;
  const commit = await showNewest(storage, shown ? before.manifest : undefined);
  await storage.put(layout.checked, seal({ checkedAt: now.toISOString(), commit, outcome }));
}

/** The newest run's record; undefined when there is none that can be read. */
async function readChecked(storage: Storage): Promise<Checked | undefined> {
  try {
    const bytes = await storage.get(layout.checked, { maxBytes: 4096 });
    return bytes && unseal(layout.checked, bytes, Checked);
  } catch (error) {
    if (error instanceof CorruptObjectError) return undefined;
    throw error;
  }
}
