import type { Commit } from "../../schemas/store/snapshot.ts";
import { tilesOf } from "../format/log-tiles.ts";
import { type Entries, GrowingTree, type TreeHead } from "../format/log-tree.ts";
import { NoteError } from "../format/note.ts";
import { leafHash } from "../format/tree.ts";
import { CorruptObjectError, MissingObjectError, unlessSync } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { entryOf, leavesOf, tileCheck, tileKey, tilesAmong } from "../store/log/public-log.ts";
import { parseCheckpoint } from "../trust/notes/texts.ts";
import type { Trust } from "../trust/trust.ts";
import type { CheckedCommit } from "./log-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

/** The largest size whose entry is signed, with `trust` by a trusted key; 0 where there is none. */
const signedSize = (commits: ReadonlyMap<number, Commit>, trust: Trust | undefined): number =>
  [...commits.values()].findLast((commit) => (trust ? !trust.commit(commit) : commit.note !== undefined))
    ?.entry.commit ?? 0;

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
  const signed = signedSize(commits, trust);
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
      // The log may have grown since it was read.
      const named = layout.commit(size);
      if (
        size > leaves.length &&
        !check.faults.some((fault) => fault.key === named) &&
        !(await check.storage.get(named))
      )
        part.faults.push({ key: named, reason: `it is missing, and ${key} names it` });
      const known = heads[size];
      if (known && !known.equals(head)) throw new CorruptObjectError(key, "it is of another log");
    }, publishAgain),
  );
}

/**
 * Throws CorruptObjectError when a checkpoint is malformed or, with `trust`, does not count: the newest must satisfy
 * the policy, and those of single sizes must be signed by the log.
 */
function checkpointIn(key: string, bytes: Buffer, trust: Trust | undefined): TreeHead {
  const note = bytes.toString();
  const parsed = () => parseCheckpoint(note);
  const judge = (by: Trust) => (key === layout.logCheckpoint ? by.tree(note) : by.signedTree(note));
  const said = trust ? judge(trust) : unlessSync(NoteError, parsed, ({ message }) => ({ reason: message }));
  if ("size" in said) return said;
  throw new CorruptObjectError(key, said.reason);
}

/**
 * Checks that the public log is that of the commits up to the newest. For commits that are gone stand the hashes in its
 * tiles for which the newest vouches. Tiles of later commits, which somebody may be adding, are left to the check of
 * what remains.
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
