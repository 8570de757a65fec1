import { Fault } from "../../../schemas/errors.ts";
import { Checked, type Commit } from "../../../schemas/store/snapshot.ts";
import { CorruptObjectError, isLoss, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { headCommit, newestAfter, newestAt, readCommit } from "../../store/log/commits.ts";
import { LogTree, lastBundle, readEntries } from "../../store/log/public-log.ts";
import { unseal } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { listedOnce } from "../../store/storage.ts";
import { refuseUntrusted, requireTrusted, type Signing, trustOf } from "../signing.ts";
import type { Trust } from "../trust.ts";
import { type Evidence, rememberedBy, rememberedHere } from "./remembered.ts";
import { type StoredCheckpoint, storedCheckpoint } from "./stored-checkpoint.ts";

const maxBytes = 64 * 1024;

/** What a run found of the log when it began. */
export interface FoundLog {
  /** The commit on which the run builds, the newest; undefined in an empty store. */
  newest: Commit | undefined;
  /** The number in head.json; undefined when it cannot be read. */
  head: number | undefined;
  /** The store, of which the public tree is listed once, after the newest commit was read. */
  storage: Storage;
  /** The entries in which the log ends, whatever they are, read once; undefined where they cannot be read. */
  tail: () => Promise<readonly Buffer[] | undefined>;
  /** The checkpoint of the store, where keys are trusted. */
  stored: StoredCheckpoint | undefined;
  /** The tree of the log up to that commit, where signed records name it and its tiles give it. */
  tree: LogTree | undefined;
}

/** The newest commit as a run finds it. */
export async function newestForRun(storage: Storage, signing: Signing): Promise<Commit | undefined> {
  return (await findLog(storage, signing)).newest;
}

/**
 * Finds the commit on which a run builds. With keys in `signing`, one of them must have signed it, and the log must
 * have what signed records name: a run that went on from an earlier commit would sign a second one of the same number.
 */
export async function findLog(unlisted: Storage, signing: Signing): Promise<FoundLog> {
  const trust = trustOf(signing);
  const head = await headCommit(unlisted);
  const newest = await newestAt(unlisted, head ?? 0).catch((error) => {
    throw trust && isLoss(error) ? refuseUntrusted(unlisted.location, error) : error;
  });
  const storage = listedOnce(unlisted, layout.publicTree);
  let entries: Promise<readonly Buffer[] | undefined> | undefined;
  const tail = async () => {
    entries ??= newest && readEntries(storage, lastBundle(newest.commit));
    return entries;
  };
  const [{ evidence, stored }] = await Promise.all([readEvidence(storage, trust), trust && tail()]);
  evidence.push(...rememberedHere(signing));
  // Another publisher may have made the log longer meanwhile.
  if (evidence.some(({ size }) => size > (newest?.commit ?? 0))) {
    const later = newest ? await newestAfter(unlisted, newest) : await newestAt(unlisted, 0);
    if (later?.commit !== newest?.commit) return findLog(unlisted, signing);
  }
  if (newest) requireTrusted(storage.location, newest, signing);
  let tree: LogTree | undefined;
  const treeUpTo = async (upTo: Commit) => {
    tree ??= await LogTree.byTiles(storage, upTo, await tail());
    return tree ?? LogTree.upTo(storage, upTo);
  };
  await requireKnown(storage, newest, evidence, treeUpTo);
  return { newest, head, storage, tail, stored, tree };
}

/**
 * The same again, right before a run makes the commit that follows `newest`. When another publisher has made it
 * already, nothing is said: the run will find that out.
 */
export async function requireStillNewest(
  storage: Storage,
  newest: Commit | undefined,
  signing: Signing,
): Promise<void> {
  const known = await knownLog(storage, signing);
  if (known.length === 0) return;
  if (await readCommit(storage, (newest?.commit ?? 0) + 1)) return;
  await requireKnown(storage, newest, known);
}

/**
 * What is known of a log: by records in the store, the publisher's own file and witnesses. It is asked before commits
 * are looked at, since publishers go on meanwhile.
 */
export async function knownLog(storage: Storage, signing: Signing): Promise<Evidence[]> {
  const { evidence } = await readEvidence(storage, trustOf(signing));
  return [...evidence, ...(await rememberedBy(storage, signing))];
}

/** That a signed record of the store names a commit. */
export const namedBy = (key: string, { size, head }: Pick<Evidence, "size" | "head">): Evidence => ({
  size,
  ...(head && { head }),
  says: `${key} is signed and names`,
});

/** What records that a trusted key signed say of the log. A thief can delete them, but make none. */
async function readEvidence(
  storage: Storage,
  trust: Trust | undefined,
): Promise<{ evidence: Evidence[]; stored: StoredCheckpoint | undefined }> {
  if (!trust) return { evidence: [], stored: undefined };
  const [stored, run] = await Promise.all([
    // An older one may have been put in the place of the newest.
    storedCheckpoint(storage, trust, Number.POSITIVE_INFINITY),
    readSmall(storage, layout.checked),
  ]);
  const { checkpoint } = stored;
  const evidence = checkpoint ? [namedBy(layout.logCheckpoint, checkpoint)] : [];
  const checked = run && parseRun(run);
  if (checked && !trust.run(checked)) evidence.push(namedBy(layout.checked, { size: checked.commit }));
  return { evidence, stored };
}

/**
 * Throws UNTRUSTED_PREDECESSOR unless the log up to `newest` is or continues every one that is known, or
 * StorageError.
 */
export async function requireKnown(
  storage: Storage,
  newest: Commit | undefined,
  known: readonly Evidence[],
  treeUpTo = (upTo: Commit) => LogTree.upTo(storage, upTo),
): Promise<void> {
  const here = newest?.commit ?? 0;
  let tree: LogTree | undefined;
  for (const { says, size, head, isOther = false } of known) {
    if (newest && size <= here && !isOther) {
      if (head === undefined) continue;
      tree ??= await unless(CorruptObjectError, () => treeUpTo(newest));
      if ((await tree?.headAt(size))?.equals(head)) continue;
    }
    const rooted = (root: Buffer | undefined) => (root ? `, root ${root.toString("hex")}` : "");
    const present = newest ? `its newest commit is ${here}${rooted(tree?.head)}` : "it has no commit";
    // The newest commit is of another log than the rest of the store, or the rest is gone.
    const isOdd = newest && size <= here && !tree;
    const back = isOdd
      ? `${layout.commit(here)}, or what is gone of ${layout.commit.prefix} and ${layout.logTile.prefix},`
      : layout.commit(size);
    throw new Fault(
      "UNTRUSTED_PREDECESSOR",
      `${storage.location}: ${says} commit ${size}${rooted(head)}, which the log does not lead to; ${present}. ` +
        `Others can write to this store, or it was set back. Put ${back} back, with all that is gone before it, from ` +
        "a backup or older versions of the objects. If you set it back yourself, delete " +
        `${layout.logCheckpoint}, ${layout.logCheckpointOf.prefix} and ${layout.checked}, and CHECKPOINT_FILE; proxies, copies ` +
        `and witnesses that remember commit ${size} refuse what follows`,
    );
  }
}

/** A record as it is stored; undefined when there is none that could be one. */
async function readSmall(storage: Storage, key: string): Promise<Buffer | undefined> {
  return storage.get(key, { maxBytes }).catch(ignoreDamage);
}

function parseRun(bytes: Buffer): Checked | undefined {
  try {
    return unseal(layout.checked, bytes, Checked);
  } catch (error) {
    return ignoreDamage(error);
  }
}

function ignoreDamage(error: unknown): undefined {
  if (!(error instanceof CorruptObjectError)) throw error;
}
