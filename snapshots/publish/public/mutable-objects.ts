import type { Checked } from "../../../schemas/store/snapshot.ts";
import { layout } from "../../store/layout.ts";
import { seal } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import type { RunLog } from "../../trust/log/believe.ts";
import { signRecord, subjectOf } from "../../trust/notes/texts.ts";
import { type Signing, trustOf } from "../../trust/signing.ts";
import { newestTrustedFrom, type Trust } from "../../trust/trust.ts";
import { updateLog, type Witnessed } from "./log.ts";
import { type AtHand, type Shown, showNewest, updatePublicNames } from "./names.ts";
import { type ApiAddress, type Named, nothingNamed, publishedNames, type Site, updateSite } from "./site.ts";
import { PublicTree } from "./tree.ts";

/** The site to publish beside the scores. */
export interface SiteOptions {
  /** Without one, the store's site files stay as they are. */
  site?: Site | undefined;
  /** The API that its pages ask; by default the one that the store already names. */
  api?: ApiAddress | undefined;
  /**
   * The address of the public tree, for which artefacts are written; null for none. By default the one that the store
   * already names: otherwise badges that a run passed over would go on showing old scores.
   */
  siteUrl?: string | null | undefined;
  /** The terms of the data; null for none. By default those that the store already names. */
  license?: string | null | undefined;
  citeAs?: string | null | undefined;
  /** Where to get a key; null for none. By default what the store already names. */
  contact?: string | null | undefined;
  /** How the run signs. When it does, it shows the newest commit that it trusts. */
  signing?: Signing | undefined;
  /** Keys of objects that are known to be damaged. They are written again even though the store lists them. */
  faulty?: ReadonlySet<string> | undefined;
}

/** What a run has at hand, so that it need not be read again. */
interface RunAtHand extends AtHand {
  /** The log as it was when the run began, unless it made a commit. */
  log?: RunLog | undefined;
}

/**
 * Updates the public log, its checkpoint, the public names and the artefacts to the newest commit, and the site to this
 * version. Returns the commit's number, and what the witnesses made of its checkpoint. Readers of snapshots need none of
 * these objects, and the next run repeats what was interrupted.
 */
export async function updateMutableObjects(
  storage: Storage,
  { site, signing = {}, faulty, ...names }: SiteOptions,
  atHand: RunAtHand,
): Promise<{ commit: number; witnessed: Witnessed[] }> {
  // Nobody trusts what a run makes without a key, yet it has to be shown.
  const trust = signing.key && trustOf(signing);
  const { log, ...shown } = await shownAtEnd(storage, trust, faulty, atHand);
  const { tree, commit: newest } = shown;
  const witnessed = await updateLog(storage, tree, newest, signing, log);
  const named = await namedIn(tree, site, names);
  const addresses = named.site === null ? undefined : { ...named, site: named.site };
  const commit = await updatePublicNames(storage, shown, atHand, addresses, trust);
  if (site) await updateSite(tree, site, named);
  return { commit, witnessed };
}

/** What the run is not told is as the store names it. */
async function namedIn(
  tree: PublicTree,
  site: Site | undefined,
  { api, siteUrl, license, citeAs, contact }: SiteOptions,
): Promise<Named> {
  const complete = (before: Named): Named => ({
    api: api === undefined ? before.api : api,
    site: siteUrl === undefined ? before.site : siteUrl,
    license: license === undefined ? before.license : license,
    citeAs: citeAs === undefined ? before.citeAs : citeAs,
    contact: contact === undefined ? before.contact : contact,
  });
  const { api: alone, ...others } = complete(nothingNamed);
  const file = layout.siteFile("api.json");
  const asTold = (await site?.files(alone, others))?.get(file);
  // Mostly the store names nothing else, so it need not be read.
  if (asTold && (await tree.holds(file, asTold))) return { api: alone, ...others };
  return complete(await publishedNames(tree.storage));
}

/** The newest commit and the public tree, as they were when the run began unless there is a later commit. */
async function shownAtEnd(
  storage: Storage,
  trust: Trust | undefined,
  faulty: SiteOptions["faulty"],
  { log, commit }: RunAtHand,
): Promise<Shown & Pick<RunAtHand, "log">> {
  if (log) {
    const tree = await PublicTree.of(log.storage, faulty);
    const newest = await newestTrustedFrom(storage, commit, trust);
    if (newest.digest === commit.digest) return { tree, commit, log };
  }
  return showNewest(storage, trust, faulty, commit);
}

/**
 * Updates the mutable objects after a successful publish run and records it in checked.json, signed when there is a
 * key. Returns what the witnesses made of the checkpoint.
 */
export async function finishRun(
  storage: Storage,
  atHand: RunAtHand,
  outcome: Checked["outcome"],
  now: Date,
  shown: SiteOptions,
): Promise<Witnessed[]> {
  const { commit, witnessed } = await updateMutableObjects(storage, shown, atHand);
  const checkedAt = now.toISOString();
  const sign = signRecord(shown.signing?.key, subjectOf.run({ checkedAt }));
  await storage.put(layout.checked, seal({ checkedAt, commit, outcome }, sign));
  return witnessed;
}
