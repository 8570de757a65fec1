import { Fault } from "../../../schemas/errors.ts";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import type { VerifierKey } from "../../format/note.ts";
import { type TreeHead, treeHead } from "../../format/tree.ts";
import { CorruptObjectError, isLoss, type ObjectError, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { newestCommit, readChecked, readCommit, type SignCommit } from "../../store/log/commits.ts";
import { LogTree, lastBundle, readEntries } from "../../store/log/tiles.ts";
import { listedOnce, type Storage } from "../../store/storage.ts";
import type { SigningKeys } from "../notes/note-keys.ts";
import { type NotedCheckpoint, signCheckpoint, signEntry } from "../notes/signed-note.ts";
import { Trust, type UntrustedError } from "../trust.ts";
import { submissionOf, type Witnesses } from "../witnesses.ts";
import { type CheckpointFile, type StoredCheckpoint, storedCheckpoint } from "./checkpoints.ts";

// One question of trust: whether the log that ends with a store's newest commit may be believed. Whoever would build on
// it, delete by it or judge it recalls what is known of the log, then finds the newest commit, and then believes it.

/** How a run signs, and on whose commits it builds: on anybody's, unless keys are given. */
export interface Signing extends SigningKeys {
  witnesses?: Witnesses | undefined;
  /** The newest checkpoint that this publisher signed, outside the store. */
  memory?: CheckpointFile | undefined;
  /** Further keys on whose commits the run may build. */
  trusted?: readonly VerifierKey[];
  /** Number of a commit on which it may build although none of these keys signed it. */
  over?: number | undefined;
  /** Whether a run without a key may go on from what was signed. */
  unsigned?: boolean | undefined;
}

/** What somebody says of a log: how many entries it had, and the head of its tree where that is told. */
export interface Evidence extends Pick<TreeHead, "size"> {
  head?: TreeHead["head"];
  /** Whether it is known to be another log than that which the store has. */
  isOther?: boolean;
  /** Who says so, and how: the beginning of a sentence that goes on with the number of a commit. */
  says: string;
}

/** What is known of a log. It is gathered before commits are looked at, since publishers go on meanwhile. */
export interface Memory {
  trust: Trust | undefined;
  evidence: readonly Evidence[];
  /** The checkpoint of the store, where keys are trusted. */
  stored: StoredCheckpoint | undefined;
  /** The commit that checked.json names, whoever wrote that; 0 when it cannot be read. */
  hint: number;
}

/** Whose records a run builds on; undefined when it builds on anybody's. */
export function trustOf({ key, trusted = [] }: Signing): Trust | undefined {
  const keys = key ? [key, ...trusted] : trusted;
  return keys.length > 0 ? new Trust(keys) : undefined;
}

/**
 * What is known of a log by records in the store that a trusted key signed, by the publisher's own file, and with
 * `witnesses` by what they have seen: to ask them, a publisher signs the current checkpoint again. A thief can delete
 * the records, but make none.
 */
export async function recall(
  storage: Storage,
  signing: Signing,
  { witnesses = false } = {},
): Promise<Memory> {
  const trust = trustOf(signing);
  const evidence: Evidence[] = [];
  const [stored, run] = await Promise.all([
    // An older one may have been put in the place of the newest.
    trust && storedCheckpoint(storage, trust, Number.POSITIVE_INFINITY),
    readChecked(storage),
  ]);
  if (stored?.checkpoint) evidence.push(evidenceIn(layout.logCheckpoint, stored.checkpoint));
  if (trust && run && !trust.refusalOf(layout.checked, run))
    evidence.push(evidenceIn(layout.checked, { size: run.commit }));
  const { memory: file } = signing;
  if (file?.newest) evidence.push({ ...file.newest, says: `${file.path} names` });
  if (stored && witnesses) evidence.push(...(await askSeen(storage, signing, stored.checkpoint)));
  return { trust, evidence, stored, hint: run?.commit ?? 0 };
}

/** What a signed record of the store says: that the log has a commit. */
export const evidenceIn = (key: string, { size, head }: Pick<Evidence, "size" | "head">): Evidence => ({
  size,
  ...(head && { head }),
  says: `${key} is signed and names`,
});

/**
 * Witnesses are shown the checkpoint of the store once more, and tell only what does not fit it or is ahead of it.
 * Where it is gone, a publisher shows them the empty tree, with which every log begins, and they answer with the size
 * that they have seen.
 */
async function askSeen(
  storage: Storage,
  signing: Signing,
  checkpoint: NotedCheckpoint | undefined,
): Promise<Evidence[]> {
  const { key, witnesses } = signing;
  const tree = checkpoint ?? { size: 0, head: treeHead([]) };
  // Whoever has no key shows what a publisher signed.
  const note = key ? signCheckpoint(signing, tree) : checkpoint?.note;
  if (!witnesses || note === undefined) return [];
  const answers = await witnesses.ask(witnesses.policy.witnesses, submissionOf(storage, note, tree));
  return answers.flatMap((answer) => {
    if ("line" in answer || (answer.size === undefined && !answer.otherTree)) return [];
    const { witness, size = tree.size, otherTree: isOther = false } = answer;
    const says = `witness ${witness.name} has seen ${isOther ? "another log with" : "a log with"}`;
    return [{ size, isOther, says }];
  });
}

export interface Belief {
  /** The tree of the log up to its newest commit, where something that is known names a head. */
  tree?: LogTree | undefined;
  /** UNTRUSTED_PREDECESSOR: the log neither is nor continues one that is known. */
  fault?: Fault;
  /** Whether another publisher has gone on: its commit is known already, and follows the one that was the newest. */
  followed?: boolean | undefined;
}

/** Whether the log up to `newest` is or continues every one that is known. `atHand` is its tree, if that is known. */
export async function believe(
  storage: Storage,
  newest: Commit | undefined,
  { trust, evidence }: Pick<Memory, "trust" | "evidence">,
  atHand?: LogTree,
): Promise<Belief> {
  let tree = atHand;
  let followed: boolean | undefined;
  for (const each of evidence) {
    const isAhead = each.size > (newest?.entry.commit ?? 0);
    if (isAhead && !each.isOther) {
      followed ??= await isFollowed(storage, newest, trust);
      if (followed) continue;
    } else if (newest && !each.isOther) {
      if (!each.head) continue;
      tree ??= await unless(CorruptObjectError, () => LogTree.upTo(storage, newest));
      if ((await tree?.headAt(each.size))?.equals(each.head)) continue;
    }
    return { tree, fault: contradiction(storage, each, newest, tree) };
  }
  return { tree, followed };
}

/** Whether the store has the commit after `newest`; undefined stands for the beginning of a log. */
export async function isFollowed(
  storage: Storage,
  newest: Commit | undefined,
  trust: Trust | undefined,
): Promise<boolean> {
  const next = await unless(CorruptObjectError, () => readCommit(storage, (newest?.entry.commit ?? 0) + 1));
  return next !== undefined && next.previous === (newest?.digest ?? null) && !trust?.refusalOfCommit(next);
}

function contradiction(
  { location }: Storage,
  { says, size, head }: Evidence,
  newest: Commit | undefined,
  tree: LogTree | undefined,
): Fault {
  const here = newest?.entry.commit ?? 0;
  const rooted = (root: Buffer | undefined) => (root ? `, root ${root.toString("hex")}` : "");
  const present = newest ? `its newest commit is ${here}${rooted(tree?.head)}` : "it has no commit";
  // The newest commit is of another log than the rest of the store, or the rest is gone.
  const isOdd = newest && size <= here && !tree;
  const back = isOdd
    ? `${layout.commit(here)}, or what is gone of ${layout.commit.prefix} and ${layout.logTile.prefix},`
    : layout.commit(size);
  return new Fault(
    "UNTRUSTED_PREDECESSOR",
    `${location}: ${says} commit ${size}${rooted(head)}, which the log does not lead to; ${present}. ` +
      `Others can write to this store, or it was set back. Put ${back} back, with all that is gone before it, from ` +
      "a backup or older versions of the objects. If you set it back yourself, delete " +
      `${layout.logCheckpoint}, ${layout.logCheckpointOf.prefix} and ${layout.checked}, and CHECKPOINT_FILE; proxies, copies ` +
      `and witnesses that remember commit ${size} refuse what follows`,
  );
}

/** The log on which a run builds, as the run met it when it began. */
export interface RunLog extends Memory, Belief {
  /** The newest commit; undefined in an empty store. */
  newest: Commit | undefined;
  /** The store, of which the public tree is listed once. */
  storage: Storage;
  /** The entries in which the log ends, whatever they are, read once; undefined where they cannot be read. */
  tail: () => Promise<readonly Buffer[] | undefined>;
  /** The tree of the log up to that commit, where signed records name it and its tiles give it. */
  tree: LogTree | undefined;
}

/**
 * The log on which a run may build. With keys in `signing`, one of them must have signed the newest commit, and the log
 * must have what is known: a run that went on from an earlier commit would sign a second one of the same number.
 */
export async function readRunLog(unlisted: Storage, signing: Signing): Promise<RunLog> {
  const storage = listedOnce(unlisted, layout.publicTree);
  const memory = await recall(storage, signing);
  const newest = await newestCommit(unlisted, memory.hint).catch((error) => {
    throw memory.trust && isLoss(error) ? refuseUntrusted(unlisted.location, error) : error;
  });
  if (newest) requireTrusted(storage.location, newest, signing);
  let entries: Promise<readonly Buffer[] | undefined> | undefined;
  const tail = async () => {
    entries ??= newest && readEntries(storage, lastBundle(newest.entry.commit));
    return entries;
  };
  const isNamed = memory.evidence.some((each) => each.head);
  const tree = newest && isNamed ? await LogTree.byTiles(storage, newest, await tail()) : undefined;
  const { fault, followed } = await believe(storage, newest, memory, tree);
  if (fault) throw fault;
  return { ...memory, newest, storage, tail, tree, followed };
}

/**
 * Asks the same again, and the witnesses too, right before a run makes the commit that follows `newest`. Does not throw
 * when another publisher has made that commit already: the run will find that out.
 */
export async function requireStillNewest(
  storage: Storage,
  newest: Commit | undefined,
  signing: Signing,
): Promise<void> {
  const { fault } = await believe(storage, newest, await recall(storage, signing, { witnesses: true }));
  if (fault) throw fault;
}

/**
 * Refuses a run without a key where the newest commit of the store is signed: nobody who trusts keys would believe
 * what it makes, and no signed run could go on from that.
 */
export function requireKey({ location }: Storage, newest: Commit | undefined, signing: Signing): void {
  if (newest?.note === undefined || signing.key || signing.unsigned) return;
  throw new Fault(
    "UNTRUSTED_PREDECESSOR",
    `${location}: commit ${newest.entry.commit} is signed, and SIGNING_KEY is not set: proxies that trust keys would not ` +
      "take up what this run makes, and every run with the key would end with 3 until one signs over that. Set " +
      "SIGNING_KEY, or give --unsigned when this store is to go on without signatures",
  );
}

/**
 * Refuses a commit that no trusted key signed. A signature vouches for all commits before it too, so a run that built
 * on whatever it finds would sign what a thief has put there.
 */
export function requireTrusted(location: string, commit: Commit, signing: Signing): void {
  const { commit: number } = commit.entry;
  if (signing.over === number) return;
  const refusal = trustOf(signing)?.refusalOfCommit(commit);
  if (refusal) throw refuseUntrusted(location, refusal, `tell publish or rollback: --sign-over ${number}`);
}

/**
 * The error of a run that cannot read the newest commit, or does not believe it. It says what to do; `ours` is the
 * advice in case a publisher of the operator's own made that commit.
 */
export function refuseUntrusted(
  location: string,
  refusal: UntrustedError | ObjectError,
  ours?: string,
): Fault {
  const { key, message } = refusal;
  const wayOut =
    `${ours ? `If a publisher of yours made it, ${ours}. If not, put` : "Put"} the version back that the object ` +
    "had before. Where it had none, others can write to this store: take that right from them, delete " +
    `${key}, and run again`;
  return new Fault("UNTRUSTED_PREDECESSOR", `${location}: ${message}. ${wayOut}`, { cause: refusal });
}

/** Whether a run has a key that has not signed a commit. */
export function lacksSignature(commit: Commit, { key }: Signing): boolean {
  return key !== undefined && new Trust([key]).refusalOfCommit(commit) !== undefined;
}

export function signerOf({ key }: Signing): SignCommit {
  return (commit) => (key ? { note: signEntry(key, commit) } : {});
}
