import { type Commit, Head, type Manifest } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { listCommits, readCommit } from "../store/log/commits.ts";
import { unseal } from "../store/records.ts";
import { checkAgreement, type Trust } from "../trust/trust.ts";
import type { SnapshotCheck } from "./snapshot-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

/** A commit and the manifest that it names. */
export interface CheckedCommit {
  commit: Commit;
  manifest: Manifest;
}

/** The result of the check of a commit log. */
interface CheckedLog {
  /** How many commits there are, faulty ones too. */
  length: number;
  /** The commits without fault, by their numbers. */
  commits: ReadonlyMap<number, Commit>;
  /** Commits whose snapshots were deleted by a collection. */
  collected: number;
  /** The newest that is trusted. Undefined when it is faulty, or head.json names a later one. */
  newest: CheckedCommit | undefined;
  /** The highest number of a commit, a faulty one too; 0 where there is none. */
  last: number;
}

/**
 * Checks the commit log and every snapshot that was not collected. The oldest commits may be missing, but none between
 * two others, and not the one that head.json names.
 */
export async function checkLog(
  check: StoreCheck,
  snapshots: SnapshotCheck,
  trust: Trust | undefined,
): Promise<CheckedLog> {
  const numbers = await listCommits(check.storage);
  const missing = (number: number) =>
    check.faults.push({ key: layout.commit(number), reason: "it is missing" });
  const kept = new Set<string>();
  for await (const { key } of check.storage.list(layout.manifests)) kept.add(key);
  const log: (Commit | undefined)[] = [];
  let collected = 0;
  let newest: CheckedCommit | undefined;
  for (const [index, number] of numbers.entries()) {
    const expected = index === 0 ? number : numbers[index - 1]! + 1;
    if (number !== expected) missing(expected);
    const before = log.at(-1);
    const commit = await checkCommit(check, number, before);
    // Collections delete the manifest first. A snapshot that still has one must be complete, as must the newest.
    if (commit && number !== numbers.at(-1) && !kept.has(layout.manifest(commit.manifest.hash))) {
      collected += 1;
    } else {
      const manifest = commit && (await snapshots.manifestOf(commit));
      // What stands above the newest that is trusted is a fault, and nothing else is to be compared with it.
      if (!commit || !trust?.commit(commit)) newest = manifest && { commit, manifest };
    }
    if (commit) await snapshots.checkChanges(commit, before?.commit === number - 1 ? before : undefined);
    log.push(commit);
  }
  checkSignatures(check, log, trust);
  const head = await check.attemptRecord(
    layout.head,
    (bytes) => unseal(layout.head, bytes, Head),
    publishAgain,
  );
  if (head && head.commit > (numbers.at(-1) ?? 0)) {
    missing(head.commit);
    newest = undefined;
  }
  const commits = new Map(log.flatMap((commit) => (commit ? [[commit.commit, commit]] : [])));
  return { length: numbers.length, commits, collected, newest, last: numbers.at(-1) ?? 0 };
}

function checkCommit(
  check: StoreCheck,
  number: number,
  before: Commit | undefined,
): Promise<Commit | undefined> {
  const key = layout.commit(number);
  return check.attempt(async () => {
    const commit = await readCommit(check.storage, number);
    if (!commit) throw new MissingObjectError(key);
    check.count(key, JSON.stringify(commit).length);
    checkAgreement(commit);
    if (before && before.commit === number - 1 && commit.previous !== before.digest)
      throw new CorruptObjectError(key, `it does not name commit ${before.commit} as its predecessor`);
    if (before && commit.publishedAt < before.publishedAt)
      throw new CorruptObjectError(key, `its time is before that of commit ${before.commit}`);
    return commit;
  });
}

/**
 * Checks that every commit is signed by a trusted key, or is unsigned and one that a signed one leads back to. `log` is
 * in ascending order.
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
