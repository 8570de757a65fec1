import {
  Checked,
  Collecting,
  KeyRecord,
  KeyRevocation,
  type Manifest,
  PartRecord,
  PartsPlan,
} from "../../schemas/store/stored-objects.ts";
import { renderProtocol, slugOfArtefact } from "../artefacts/artefacts.ts";
import { cardKey, drawCard } from "../artefacts/card.ts";
import { recordAt, scoreListAt } from "../publish/public/mutable-objects.ts";
import type { Named, Site } from "../publish/public/site.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { commitNumberIn, hashIn, isKeyRevocation, layout, sha256 } from "../store/layout.ts";
import { tileNamed } from "../store/log/tiles.ts";
import { unseal } from "../store/objects.ts";
import { probeBody } from "../store/open-storage.ts";
import type { ObjectInfo, Storage } from "../store/storage.ts";
import { isFollowed, recall, type Signing } from "../trust/log/believe.ts";
import type { Trust } from "../trust/trust.ts";
import { checkKnown, checkLog, checkPublicLog } from "./log-check.ts";
import { PageCheck } from "./page-check.ts";
import { checkArtefacts, checkExports, checkPublicNames, checkSite } from "./public-tree-check.ts";
import { type SnapshotCheck, snapshotCheck } from "./snapshot-check.ts";
import { largeOnesAlone, publishAgain, type Remark, StoreCheck } from "./store-check.ts";

export interface VerifyReport {
  commits: number;
  /** Commits whose snapshots a collection deleted. */
  collected: number;
  markets: number;
  objects: number;
  bytes: number;
  /**
   * Objects that no commit reaches, without pages where a segment has an unknown encoding. Their content was checked
   * against their names too.
   */
  unreferenced: number;
  /** Objects that were only listed, as an earlier check has read them. */
  passedOver: number;
  /** Objects that are as they were written, but that only another version of this program or of Unicode can judge. */
  unchecked: Remark[];
  faults: Remark[];
}

export interface VerifyOptions {
  /** False skips the key records, which publishers may not read. */
  keys?: boolean;
  /** Without it, site files are skipped. */
  site?: Site;
  /** Signatures that must be there. What checkpoints say is checked in any case. */
  trust?: Trust | undefined;
  /** Who remembers the log. */
  signing?: Signing;
  /** The number of the commit with which the log begins. */
  begins?: number;
  /** What the commits up to this number have is passed over: an earlier check has read it. */
  since?: number;
  /** The newest commit that an earlier check saw, which must be there. `since` if left out. */
  seen?: number;
}

/**
 * Checks every byte of a store: the commit log, all its snapshots, the public names, the site, the key records, and
 * unreferenced objects. Publishers may go on meanwhile: what they make is left to the next check. Returns the faults;
 * throws only StorageError, or FormatError for a store of another format.
 */
export async function verify(
  storage: Storage,
  progress: (step: string, done: number, of: number) => void,
  { keys = true, site, trust, signing = {}, begins = 1, since = 0, seen = since }: VerifyOptions = {},
): Promise<VerifyReport> {
  const earlier = { since, listed: new Map<string, number>() };
  if (since > 0) for await (const { key, bytes } of storage.list("")) earlier.listed.set(key, bytes);
  const check = new StoreCheck(largeOnesAlone(storage));
  await using pages = new PageCheck();
  const snapshots = snapshotCheck(check, pages, earlier, progress);
  const memory = await recall(storage, signing, { witnesses: true });
  const log = await checkLog(check, snapshots, { trust, begins });
  const { length, commits, collected, last } = log;
  if (seen > last) check.fault(layout.commit(seen), "it is missing, and an earlier check saw it");
  await checkKnown(check, log.newest?.commit, memory);
  // Otherwise the public names show a commit that is gone.
  const newest = memory.hint <= last ? log.newest : undefined;
  // Everything after that would be faults that nobody can mend.
  const { foreign } = check;
  if (foreign && (commits.size === 0 || foreign.key.startsWith(layout.manifest.prefix))) throw foreign;
  if (newest) await checkPublicNames(check, newest, snapshots.published);
  else await check.countOnly(layout.stableScore.prefix);
  await checkPublicLog(check, commits, newest, trust);
  await checkExports(check, log, trust);
  const named = await checkSite(check, site);
  if (newest) await checkArtefacts(check, newest, named, trust);
  await checkProbe(check);
  await checkRun(check, trust, last);
  const unreferenced = await checkRemaining(check, { keys, snapshots, named });
  const grew = (log.newest || last === 0) && (await isFollowed(storage, log.newest?.commit, trust));
  return {
    commits: length,
    collected,
    markets: newest?.commit.entry.counts.markets ?? 0,
    objects: check.objects,
    bytes: check.bytes,
    unreferenced,
    passedOver: check.passedOver.size,
    unchecked: check.unchecked,
    faults: check.faults.filter(({ key }) => !(grew && isRewritten(key))),
  };
}

/** Whether publish runs put other content in the place of what there was. */
function isRewritten(key: string): boolean {
  if (key === layout.checked || key === layout.logCheckpoint) return true;
  const isLasting = [layout.log, layout.publicObject.prefix].some((prefix) => key.startsWith(prefix));
  return key.startsWith(layout.publicTree) && !isLasting;
}

/** The probe is the object with which publish runs try conditional writes. */
async function checkProbe(check: StoreCheck): Promise<void> {
  await check.attempt(async () => {
    const bytes = await check.storage.get(layout.probe);
    if (!bytes) return;
    check.count(layout.probe, bytes.length);
    if (!bytes.equals(probeBody))
      throw new CorruptObjectError(layout.probe, "its content is not a publisher's probe");
  });
}

async function checkRun(check: StoreCheck, trust: Trust | undefined, last: number): Promise<void> {
  const parse = (bytes: Buffer) => {
    const run = unseal(layout.checked, bytes, Checked);
    const refusal = trust?.refusalOf(layout.checked, run);
    if (refusal) throw refusal;
    return run;
  };
  const run = await check.attemptRecord(layout.checked, parse, publishAgain);
  if (run && run.commit > last) await check.requireLater(run.commit, layout.checked);
}

/**
 * Checks what no other check has seen: key records, collections and runs in parts that are under way, and objects that
 * no commit reaches. Returns how many objects no commit reaches.
 */
async function checkRemaining(
  check: StoreCheck,
  { keys, snapshots, named }: { keys: boolean; snapshots: SnapshotCheck; named: Named },
): Promise<number> {
  let unreferenced = 0;

  async function checkUnreferenced(part: StoreCheck, key: string): Promise<void> {
    const bytes = await part.storage.get(key);
    if (!bytes) return;
    part.count(key, bytes.length);
    if (isLater(key)) return;
    const hash = /\/([0-9a-f]{64})(\.json|\.(nd)?json\.gz|\.parquet)?$/.exec(key)?.[1];
    if (hash && sha256(bytes) !== hash)
      throw new CorruptObjectError(key, "its content does not match its name");
    // The log may have grown since it was checked, or was longer once.
    if (hash || tileNamed(key)) return;
    // The name of a removed protocol stays with its last content until it is collected.
    const leftover = key.startsWith(layout.stableScore.prefix) && snapshots.published.has(sha256(bytes));
    if (!leftover && !(await isLeftArtefact(part, key, bytes, snapshots.manifests(), named)))
      throw new CorruptObjectError(key, "a store has no objects with such names");
  }

  const checkOne = async ({ key }: ObjectInfo, part: StoreCheck): Promise<unknown> => {
    if (check.hasSeen(key)) return undefined;
    if (key.startsWith(layout.key.prefix))
      return keys && part.attemptRecord(key, (bytes) => checkKey(key, bytes));
    if (key.startsWith(layout.collecting.prefix))
      // A collection may have deleted it since it was listed.
      return part.attempt(async () => {
        const bytes = await part.storage.get(key);
        if (bytes) unseal(key, bytes, Collecting);
      });
    if (key.startsWith(layout.runPlan.prefix)) {
      const schema = layout.runPlan.has(key) ? PartsPlan : PartRecord;
      return part.attemptRecord(key, (bytes) => void unseal<PartsPlan | PartRecord>(key, bytes, schema));
    }
    if (!(check.hidesPages && key.startsWith(layout.page.prefix))) unreferenced += 1;
    return part.attempt(() => checkUnreferenced(part, key));
  };
  await check.each(check.storage.list(""), checkOne, { bytes: ({ bytes }) => bytes });
  return unreferenced;
}

function checkKey(key: string, bytes: Buffer): void {
  if (!namesOfKey(key, bytes).includes(key))
    throw new CorruptObjectError(key, "it holds another key's record");
}

/** The names that the content of an object under keys/ allows. */
function namesOfKey(key: string, bytes: Buffer): string[] {
  if (!isKeyRevocation(key)) return [layout.key(unseal(key, bytes, KeyRecord).id)];
  const { id, revokedAt } = unseal(key, bytes, KeyRevocation);
  return [layout.keyRevocation(id), layout.keyRevocation(id, Date.parse(revokedAt))];
}

/** Whether it is of a kind whose objects were all checked when they were listed. Then it came since. */
function isLater(key: string): boolean {
  const hash = hashIn(key);
  const named = [
    layout.logCheckpointOf(Number(/\d+$/.exec(key)?.[0])),
    layout.exportRecord(hash),
    layout.exportedChanges(hash),
  ];
  return commitNumberIn(key) !== undefined || named.includes(key);
}

/** Whether it shows a removed protocol, or an earlier score of one, as a kept snapshot has it. */
async function isLeftArtefact(
  { storage }: StoreCheck,
  key: string,
  bytes: Buffer,
  manifests: readonly Manifest[],
  { site, ...others }: Named,
): Promise<boolean> {
  const slug = slugOfArtefact(key);
  if (site === null || slug === undefined) return false;
  for (const { scores } of manifests) {
    const ref = Object.hasOwn(scores.records, slug) && scores.records[slug];
    if (!ref) continue;
    const record = await recordAt(storage, ref);
    if (key === cardKey(slug, ref.hash)) return drawCard(record).equals(bytes);
    const list = await scoreListAt(storage, scores.list);
    const rendered = new Map(renderProtocol({ ...others, site }, { record, hash: ref.hash }, list));
    if (rendered.get(key)?.equals(bytes)) return true;
  }
  return false;
}
