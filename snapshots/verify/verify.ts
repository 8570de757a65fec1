import { Checked } from "../../schemas/store/snapshot.ts";
import type { Site } from "../publish/public/site.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { unseal } from "../store/objects.ts";
import { probeBody } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import { recall } from "../trust/log/believe.ts";
import type { Signing } from "../trust/signing.ts";
import type { Trust } from "../trust/trust.ts";
import { checkExports } from "./export-check.ts";
import { checkKnown, checkLog } from "./log-check.ts";
import { checkPublicLog } from "./public-log-check.ts";
import { checkArtefacts, checkPublicNames, checkSite } from "./public-tree-check.ts";
import { checkRemaining } from "./remaining-check.ts";
import { SnapshotCheck } from "./snapshot-check.ts";
import { publishAgain, type Remark, StoreCheck } from "./store-check.ts";

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
}

/**
 * Checks every byte of a store: the commit log, all its snapshots, the public names, the site, the key records, and
 * unreferenced objects. Returns the faults; throws only StorageError, or FormatError for a store of another format.
 */
export async function verify(
  storage: Storage,
  progress: (step: string, done: number, of: number) => void,
  { keys = true, site, trust, signing = {}, begins = 1 }: VerifyOptions = {},
): Promise<VerifyReport> {
  const check = new StoreCheck(storage);
  const snapshots = new SnapshotCheck(check, progress);
  const memory = await recall(storage, signing, { witnesses: true });
  const { length, commits, collected, newest, last } = await checkLog(check, snapshots, { trust, begins });
  await checkKnown(check, newest?.commit, memory);
  // Everything after that would be faults that nobody can mend.
  const { foreign } = check;
  if (foreign && (commits.size === 0 || foreign.key.startsWith(layout.manifest.prefix))) throw foreign;
  if (newest) await checkPublicNames(check, newest, snapshots.published);
  else await check.countOnly(layout.stableScore.prefix);
  await checkPublicLog(check, commits, newest, trust);
  await checkExports(check, commits, trust);
  const named = await checkSite(check, site);
  if (newest) await checkArtefacts(check, newest, named, trust);
  await checkProbe(check);
  await checkRun(check, trust, last);
  const unreferenced = await checkRemaining(check, { keys, snapshots, named });
  return {
    commits: length,
    collected,
    markets: newest?.manifest.counts.markets ?? 0,
    objects: check.objects,
    bytes: check.bytes,
    unreferenced,
    unchecked: check.unchecked,
    faults: check.faults,
  };
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
    const refusal = trust?.run(run);
    if (refusal) throw new CorruptObjectError(refusal.key, refusal.reason);
    const named = layout.commit(run.commit);
    if (run.commit > last && !check.faults.some(({ key }) => key === named))
      check.faults.push({ key: named, reason: `it is missing, and ${layout.checked} names it` });
  };
  await check.attemptRecord(layout.checked, parse, publishAgain);
}
