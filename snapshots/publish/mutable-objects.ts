import type { Checked } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import { seal } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";
import { newestBelieved } from "../trust/log/newest-trusted.ts";
import { signRecord, subjectOf } from "../trust/notes/record-notes.ts";
import { type Signing, trustOf } from "../trust/signing.ts";
import { updateCheckpoint, type Witnessed } from "./log-checkpoint.ts";
import { updatePublicLog } from "./public-log.ts";
import { type ObjectsByHash, updatePublicNames } from "./public-names.ts";
import { type ApiAddress, publishedNames, putIfDifferent, type Site, updateSite } from "./site.ts";

/** The site to publish beside the scores. */
export interface SiteOptions {
  /** The site; without one, the store's site files stay as they are. */
  site?: Site | undefined;
  /** The API that its pages ask; when left out, the one that the store already names. */
  api?: ApiAddress | undefined;
  /**
   * The address of the public tree, for which its artefacts are written; null for none. When left out, the one that the
   * store already names: badges that a run passed over would go on showing old scores.
   */
  siteUrl?: string | null | undefined;
  /** The terms told with the data; null for none. When left out, those that the store already names. */
  license?: string | null | undefined;
  citeAs?: string | null | undefined;
  /** How the run signs. When it does, what it shows is of the newest commit that it trusts. */
  signing?: Signing | undefined;
  /** Keys of objects that are known to be damaged. They are written again even though the store lists them. */
  faulty?: ReadonlySet<string> | undefined;
}

/**
 * Updates head.json, the public log, its checkpoint, the public names and the artefacts to the newest commit,
 * and the site to this version. Returns the commit's number, or 0 before the first, and what became of its checkpoint
 * at the witnesses. Readers of snapshots need none of these objects, and the next run repeats what was interrupted.
 * Throws MissingObjectError, CorruptObjectError or StorageError.
 */
export async function updateMutableObjects(
  storage: Storage,
  { site, signing = {}, faulty, ...told }: SiteOptions,
  inMemory: ObjectsByHash = new Map(),
): Promise<{ commit: number; witnessed: Witnessed[] }> {
  // What a run makes without a key is trusted by nobody, and still to be shown.
  const trust = signing.key && trustOf(signing);
  const newest = await newestBelieved(storage, trust);
  if (newest) await putIfDifferent(storage, layout.head, seal({ commit: newest.commit }));
  if (newest) await updatePublicLog(storage, newest, faulty);
  const witnessed = newest ? await updateCheckpoint(storage, newest, signing) : [];
  const before = await publishedNames(storage);
  const { api = before.api, siteUrl = before.site, license = before.license, citeAs = before.citeAs } = told;
  const named = { api, site: siteUrl, license, citeAs };
  const addresses = siteUrl === null ? undefined : { ...named, site: siteUrl };
  const commit = await updatePublicNames(storage, inMemory, addresses, trust);
  if (site) await updateSite(storage, site, named);
  return { commit, witnessed };
}

/**
 * Updates the mutable objects after a successful publish run and records it in checked.json, signed when there is a
 * key. Returns what became of the checkpoint at the witnesses. `inMemory` holds objects that the run has just made, so
 * that they need not be read. Throws as updateMutableObjects does.
 */
export async function finishRun(
  storage: Storage,
  inMemory: ObjectsByHash,
  outcome: Checked["outcome"],
  now: Date,
  shown: SiteOptions,
): Promise<Witnessed[]> {
  const { commit, witnessed } = await updateMutableObjects(storage, shown, inMemory);
  const checkedAt = now.toISOString();
  const sign = signRecord(shown.signing?.key, subjectOf.run({ checkedAt }));
  await storage.put(layout.checked, seal({ checkedAt, commit, outcome }, sign));
  return witnessed;
}
