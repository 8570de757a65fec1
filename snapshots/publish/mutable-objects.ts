import type { Checked } from "../../schemas/snapshot.ts";
import { newestCommit } from "../store/commits.ts";
import { layout } from "../store/layout.ts";
import { seal } from "../store/sealed.ts";
import type { Storage } from "../store/storage.ts";
import { type PublicObjects, updatePublicNames } from "./public-names.ts";
import { type ApiPlace, putIfOther, type Site, updateSite } from "./site.ts";

/** What is shown beside the newest commit. */
export interface SiteOptions {
  /** The site, if one is to be published. */
  site?: Site | undefined;
  /** The API that its pages are to ask; when left out, the one that the store names. */
  api?: ApiPlace | undefined;
}

/**
 * Brings the hint and the public names to the newest commit, the site to this version's, and returns the commit's
 * number. Every part may be repeated by the next run, and no reader of snapshots needs any of it.
 */
export async function updateMutableObjects(
  storage: Storage,
  { site, api }: SiteOptions,
  atHand: PublicObjects = new Map(),
): Promise<number> {
  const newest = await newestCommit(storage);
  if (newest) await putIfOther(storage, layout.head, seal({ commit: newest.commit }));
  const shows = await updatePublicNames(storage, atHand);
  if (site) await updateSite(storage, site, api);
  return shows;
}

/** Ends a publish run that succeeded. `atHand` spares reading what the run has made anyway. */
export async function finishRun(
  storage: Storage,
  atHand: PublicObjects,
  outcome: Checked["outcome"],
  now: Date,
  shown: SiteOptions,
): Promise<void> {
  const commit = await updateMutableObjects(storage, shown, atHand);
  await storage.put(layout.checked, seal({ checkedAt: now.toISOString(), commit, outcome }));
}
