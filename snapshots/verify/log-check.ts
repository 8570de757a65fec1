import type { Commit, Manifest } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { gapsIn, listCommits, readPresent } from "../store/log/commits.ts";
import { believe, type Memory } from "../trust/log/believe.ts";
import { checkAgreement, type Trust } from "../trust/trust.ts";
import type { SnapshotCheck } from "./snapshot-check.ts";
import type { StoreCheck } from "./store-check.ts";

export interface CheckedCommit {
  commit: Commit;
  manifest: Manifest;
}

interface CheckedLog {
  /** Includes faulty commits. */
  length: number;
  /** Commits without fault, by number, oldest first. */
  commits: ReadonlyMap<number, Commit>;
  /** Commits whose snapshots a collection deleted. */
  collected: number;
  /** The newest trusted commit. Undefined when it is faulty. */
  newest: CheckedCommit | undefined;
  /** The highest number, also of a faulty commit; 0 where there is none. */
  last: number;
}

/**
 * Checks the commit log from number `begins` on, and every snapshot that was not collected. No commit may be missing.
 */
export async function checkLog(
  check: StoreCheck,
  snapshots: SnapshotCheck,
  { trust, begins }: { trust: Trust | undefined; begins: number },
): Promise<CheckedLog> {
  const listed = await listCommits(check.storage);
  const numbers = listed.filter((number) => number >= begins);
  // These commits lie before the log, and nothing that is checked leads there.
  for (const number of listed) if (number < begins) check.count(layout.commit(number), 0);
  const missing = (number: number, to = number) => {
    const more = to > number ? `, and so are all up to commit ${to}` : "";
    check.faults.push({ key: layout.commit(number), reason: `it is missing${more}` });
  };
  if (numbers.length === 0 && begins > 1) missing(begins);
  for (const [first, to] of gapsIn(numbers, begins)) missing(first, to);
  const kept = new Set<string>();
  for (const { prefix } of [layout.manifest, layout.changeRecord])
    for await (const { key } of check.storage.list(prefix)) kept.add(key);
  const read = await check.each(numbers, (number, part) =>
    part.attempt(() => readPresent(part.storage, number)),
  );
  const log: (Commit | undefined)[] = [];
  let collected = 0;
  let newest: CheckedCommit | undefined;
  for (const [index, number] of numbers.entries()) {
    const before = log.at(-1);
    const commit = await checkCommit(check, read[index], before);
    // Collections delete the manifest first. A snapshot that still has one must be complete, as must the newest.
    if (commit && number !== numbers.at(-1) && !kept.has(layout.manifest(commit.manifest.hash))) {
      collected += 1;
    } else {
      const manifest = commit && (await snapshots.manifestOf(commit));
      // What lies above the newest trusted commit is a fault, and nothing else is compared with it.
      if (!commit || !trust?.commit(commit)) newest = manifest && { commit, manifest };
    }
    const predecessor = before?.entry.commit === number - 1 ? before : undefined;
    if (commit) await snapshots.checkChanges(commit, predecessor, kept);
    log.push(commit);
  }
  checkSignatures(check, log, trust);
  const commits = new Map(log.flatMap((commit) => (commit ? [[commit.entry.commit, commit]] : [])));
  return { length: numbers.length, commits, collected, newest, last: numbers.at(-1) ?? 0 };
}

/**
 * Checks that the log up to the newest commit is the one that signed records, a publisher's own file and witnesses
 * know, unless a commit's fault already explains why not.
 */
export async function checkKnown(
  check: StoreCheck,
  newest: Commit | undefined,
  memory: Memory,
): Promise<void> {
  if (check.faults.some(({ key }) => key.startsWith(layout.commit.prefix))) return;
  const { storage, faults } = check;
  const { fault } = await believe(storage, newest, memory);
  const key = layout.commit(newest?.entry.commit ?? 1);
  if (fault) faults.push({ key, reason: fault.message.slice(storage.location.length + 2) });
}

async function checkCommit(
  check: StoreCheck,
  commit: Commit | undefined,
  before: Commit | undefined,
): Promise<Commit | undefined> {
  if (!commit) return undefined;
  const { commit: number } = commit.entry;
  const key = layout.commit(number);
  return check.attempt(async () => {
    check.count(key, JSON.stringify(commit).length);
    checkAgreement(commit);
    if (before && before.entry.commit === number - 1 && commit.previous !== before.digest)
      throw new CorruptObjectError(key, `it does not name commit ${before.entry.commit} as its predecessor`);
    if (before && commit.entry.publishedAt < before.entry.publishedAt)
      throw new CorruptObjectError(key, `its time is before that of commit ${before.entry.commit}`);
    return commit;
  });
}

/**
 * Every commit must be signed by a trusted key, or be unsigned and one that a signed one leads back to. `log` ascends.
 */
function checkSignatures(
  check: StoreCheck,
  log: readonly (Commit | undefined)[],
  trust: Trust | undefined,
): void {
  let named: string | null | undefined;
  for (const commit of log.toReversed()) {
    const refusal = commit && trust?.commit(commit);
    const vouchedFor = commit?.digest === named;
    if (refusal && (commit?.note !== undefined || !vouchedFor))
      check.faults.push({ key: refusal.key, reason: refusal.reason });
    named = refusal && !vouchedFor ? undefined : commit?.previous;
  }
}
