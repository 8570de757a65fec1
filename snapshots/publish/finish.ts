import type { ApiPlace } from "../../proxy/site/files.ts";
import type { Checked } from "../../schemas/snapshot.ts";
import { newestCommit } from "../store/commits.ts";
import { layout } from "../store/layout.ts";
import { seal } from "../store/sealed.ts";
import type { Storage } from "../store/storage.ts";
import { type PublicObjects, projectPublicNames } from "./projection.ts";
import { projectSite, putIfOther } from "./site.ts";

/**
 * Brings the hint and the public names to the newest commit, the site to this version's, and returns the commit's
 * number. Every part may be repeated by the next run, and no reader of snapshots needs any of it.
 */
export async function showNewest(
  storage: Storage,
  atHand: PublicObjects = new Map(),
  api?: ApiPlace,
): Promise<number> {
  const newest = await newestCommit(storage);
  if (newest) await putIfOther(storage, layout.head, seal({ commit: newest.commit }));
  const shows = await projectPublicNames(storage, atHand);
  await projectSite(storage, api);
  return shows;
}

/** Ends a publish run that succeeded. `atHand` spares reading what the run has made anyway; `api` is what the site is to ask. */
export async function finishRun(
  storage: Storage,
  atHand: PublicObjects,
  outcome: Checked["outcome"],
  now: Date,
  api: ApiPlace | undefined,
): Promise<void> {
  const commit = await showNewest(storage, atHand, api);
  await storage.put(layout.checked, seal({ checkedAt: now.toISOString(), commit, outcome }));
}
