import type { Commit, Manifest } from "../../schemas/store/stored-objects.ts";
import { tilesOf } from "../format/log-tiles.ts";
import { NoteError } from "../format/note.ts";
import { type Entries, GrowingTree, leafHash, type TreeHead } from "../format/tree.ts";
import { CorruptObjectError, MissingObjectError, unlessSync } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { gapsIn, listCommits, readPresent } from "../store/log/commits.ts";
import { entryOf, leavesOf, tileCheck, tileKey, tilesAmong } from "../store/log/tiles.ts";
import { believe, type Memory } from "../trust/log/believe.ts";
import { parseCheckpoint } from "../trust/notes/signed-note.ts";
import { checkAgreement, type Trust } from "../trust/trust.ts";
import type { SnapshotCheck } from "./snapshot-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

export interface CheckedCommit {
  commit: Commit;
  manifest: Manifest;
}

export type CheckedLog = Awaited<ReturnType<typeof checkLog>>;

/** Checks the log from commit `begins` on, and every snapshot that was not collected. No commit may be missing. */
export async function checkLog(
  check: StoreCheck,
  snapshots: SnapshotCheck,
  { trust, begins }: { trust: Trust | undefined; begins: number },
) {
  const listed = await listCommits(check.storage);
  const numbers = listed.filter((number) => number >= begins);
  // These commits lie before the log, and nothing that is checked leads there.
  for (const number of listed) if (number < begins) check.count(layout.commit(number), 0);
  const missing = (number: number, to = number) => {
    const more = to > number ? `, and so are all up to commit ${to}` : "";
    check.fault(layout.commit(number), `it is missing${more}`);
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
    const one = read[index];
    const commit = one && (await check.attempt(async () => checkCommit(check, one, before)));
    // Collections delete the manifest first. A snapshot that still has one must be complete, as must the newest.
    if (commit && number !== numbers.at(-1) && !kept.has(layout.manifest(commit.manifest.hash))) {
      collected += 1;
    } else {
      const manifest = commit && (await snapshots.manifestOf(commit));
      // What lies above the newest trusted commit is a fault, and nothing else is compared with it.
      if (!commit || !trust?.refusalOfCommit(commit)) newest = manifest && { commit, manifest };
    }
    const predecessor = before?.entry.commit === number - 1 ? before : undefined;
    if (commit) await snapshots.checkChanges(commit, predecessor, kept);
    log.push(commit);
  }
  checkSignatures(check, log, trust);
  return {
    /** Includes faulty commits. */
    length: numbers.length,
    /** Commits without fault, by number, oldest first. */
    commits: new Map(log.flatMap((commit) => (commit ? [[commit.entry.commit, commit]] : []))),
    /** Commits whose snapshots a collection deleted. */
    collected,
    /** The newest trusted commit. Undefined when it is faulty. */
    newest,
    /** The highest number, also of a faulty commit; 0 where there is none. */
    last: numbers.at(-1) ?? 0,
  };
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
  const { storage } = check;
  const { fault } = await believe(storage, newest, memory);
  const key = layout.commit(newest?.entry.commit ?? 1);
  if (fault) check.fault(key, fault.message.slice(storage.location.length + 2));
}

function checkCommit(check: StoreCheck, commit: Commit, before: Commit | undefined): Commit {
  const { commit: number } = commit.entry;
  const key = layout.commit(number);
  check.count(key, Buffer.byteLength(JSON.stringify(commit)));
  checkAgreement(commit);
  if (before && before.entry.commit === number - 1 && commit.previous !== before.digest)
    throw new CorruptObjectError(key, `it does not name commit ${before.entry.commit} as its predecessor`);
  if (before && commit.entry.publishedAt < before.entry.publishedAt)
    throw new CorruptObjectError(key, `its time is before that of commit ${before.entry.commit}`);
  return commit;
}

/** Every commit must be signed by a trusted key, or be unsigned and named by one that counts. `log` ascends. */
function checkSignatures(
  check: StoreCheck,
  log: readonly (Commit | undefined)[],
  trust: Trust | undefined,
): void {
  let named: string | null | undefined;
  for (const commit of log.toReversed()) {
    const refusal = commit && trust?.refusalOfCommit(commit);
    const vouchedFor = commit?.digest === named;
    if (refusal && (commit?.note !== undefined || !vouchedFor)) check.fault(refusal.key, refusal.reason);
    named = refusal && !vouchedFor ? undefined : commit?.previous;
  }
}

/**
 * Checks that each commit names the tree of those before it, and that every checkpoint is of this log and signed, with
 * `trust` by a key of it.
 */
async function checkTrees(
  check: StoreCheck,
  commits: ReadonlyMap<number, Commit>,
  leaves: Entries,
  trust: Trust | undefined,
): Promise<void> {
  const tree = new GrowingTree();
  const heads = [tree.head()];
  for (const leaf of leaves) {
    if (!leaf) break;
    tree.append(leaf);
    heads.push(tree.head());
  }
  for (const commit of commits.values())
    await check.attempt(async () => {
      const head = heads[commit.entry.commit - 1];
      if (head && head.toString("hex") !== commit.tree)
        throw new CorruptObjectError(
          layout.commit(commit.entry.commit),
          "its tree is not that of the commits before",
        );
    });
  const isSigned = (commit: Commit) => (trust ? !trust.refusalOfCommit(commit) : commit.note !== undefined);
  const signed = [...commits.values()].findLast(isSigned)?.entry.commit ?? 0;
  const keys = new Set<string>([layout.logCheckpoint]);
  for await (const { key } of check.storage.list(layout.logCheckpointOf.prefix)) keys.add(key);
  const wanted = signed > 0 ? [layout.logCheckpoint, layout.logCheckpointOf(signed)] : [];
  await check.each(keys.union(new Set(wanted)), (key, part) =>
    part.attempt(async () => {
      const bytes = await check.storage.get(key);
      if (!bytes && wanted.includes(key)) throw new MissingObjectError(key);
      if (!bytes) return;
      part.count(key, bytes.length);
      const { size, head } = checkpointIn(key, bytes, trust);
      const isNewest = key === layout.logCheckpoint;
      if (isNewest && size < signed) throw new CorruptObjectError(key, `it is behind commit ${signed}`);
      if (!isNewest && layout.logCheckpointOf(size) !== key)
        throw new CorruptObjectError(key, `it is of ${size} entries`);
      if (size > leaves.length) await part.requireLater(size, key);
      const expected = heads[size];
      if (expected && !expected.equals(head)) throw new CorruptObjectError(key, "it is of another log");
    }, publishAgain),
  );
}

/**
 * Throws CorruptObjectError when a checkpoint is malformed or, with `trust`, does not count: the newest must satisfy
 * the policy, and those of single sizes must be signed by the log.
 */
function checkpointIn(key: string, bytes: Buffer, trust: Trust | undefined): TreeHead {
  const note = bytes.toString();
  const parsed = () => ({ ...parseCheckpoint(note), lacking: undefined });
  const verdict =
    trust?.checkpoint(note) ?? unlessSync(NoteError, parsed, ({ message }) => ({ reason: message }));
  if ("reason" in verdict) throw new CorruptObjectError(key, verdict.reason);
  if (key === layout.logCheckpoint && verdict.lacking) throw new CorruptObjectError(key, verdict.lacking);
  return verdict;
}

/**
 * Checks that the public log is that of the commits up to the newest. In place of commits that are gone it takes the
 * hashes in the tiles, for which the newest vouches. Tiles of later commits, which somebody may be adding, are left to
 * the check of what remains.
 */
export async function checkPublicLog(
  check: StoreCheck,
  commits: ReadonlyMap<number, Commit>,
  newest: CheckedCommit | undefined,
  trust: Trust | undefined,
): Promise<void> {
  if (!newest) return check.countOnly(layout.log);
  const size = newest.commit.entry.commit;
  const entries = Array.from({ length: size }, (_, place) => {
    const commit = commits.get(place + 1);
    return commit && entryOf(commit);
  });
  const whole = await leavesOf(check.storage, newest.commit, entries);
  const leaves = whole ?? entries.map((entry) => entry && leafHash(entry));
  const wayBack = whole || !entries.includes(undefined) ? "delete it" : "put what is gone of them back";
  await checkTrees(check, commits, leaves, trust);
  const keys: string[] = [];
  for await (const { key } of check.storage.list(layout.logTile.prefix)) keys.push(key);
  const needed = new Map(tilesOf(size).map((tile) => [tileKey(tile), tile]));
  const isRight = tileCheck(leaves);
  await check.each(new Map([...tilesAmong(keys, size), ...needed]), ([key, tile], part) =>
    part.attempt(async () => {
      const bytes = await check.storage.get(key);
      if (bytes) part.count(key, bytes.length);
      if (bytes ? isRight(tile, bytes) : !needed.has(key)) return;
      // A publisher that stops after its commit leaves the log of an earlier one.
      const reason = bytes
        ? `it is not what the commits give; ${wayBack}`
        : `projection behind commit ${size}`;
      throw new CorruptObjectError(key, reason);
    }, publishAgain),
  );
}
