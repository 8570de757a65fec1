import { Checked, type Commit } from "../../../schemas/snapshot.ts";
import type { TreeHead } from "../../format/log-tree.ts";
import { CorruptObjectError } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { newestCommit, readCommit } from "../../store/log/commits.ts";
import { LogTree } from "../../store/log/public-log.ts";
import { unseal } from "../../store/records.ts";
import type { Storage } from "../../store/storage.ts";
import { requireTrusted, type Signing, trustOf, UntrustedPredecessorError } from "../signing.ts";
import type { Trust } from "../trust.ts";
import { type Remembered, rememberedBy } from "./remembered.ts";
import { storedCheckpoint } from "./stored-checkpoint.ts";

/**
 * What a signed record says of the log: how many entries it had, and the head of its tree where the record tells it.
 */
interface Evidence extends Pick<TreeHead, "size"> {
  head?: TreeHead["head"];
  /** The record's key in the store. */
  key: string;
}

const maxBytes = 64 * 1024;

/**
 * The commit on which a run builds, the newest; undefined in an empty store. With keys in `signing`, one of them must
 * have signed it, and the log must have what signed records name: a run that went on from an earlier commit would sign
 * a second one of the same number. Throws UntrustedPredecessorError, CorruptObjectError or StorageError.
 */
export async function newestForRun(storage: Storage, signing: Signing): Promise<Commit | undefined> {
  const trust = trustOf(signing);
  // Read before the log, which another publisher may be making longer.
  const evidence = trust ? await evidenceIn(storage, trust) : [];
  const newest = await newestCommit(storage);
  if (newest) requireTrusted(storage.location, newest, signing);
  await requireNamed(storage, newest, evidence);
  return newest;
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
  const trust = trustOf(signing);
  if (!trust) return;
  const evidence = await evidenceIn(storage, trust);
  const remembered = await rememberedBy(storage, trust, signing);
  if (await readCommit(storage, (newest?.commit ?? 0) + 1)) return;
  await requireNamed(storage, newest, evidence);
  await requireRemembered(storage, newest, remembered);
}

/**
 * Throws UntrustedPredecessorError when somebody remembers more of the log than it has up to `newest`, or another one;
 * CorruptObjectError when that log is gone, or StorageError.
 */
export async function requireRemembered(
  storage: Storage,
  newest: Commit | undefined,
  remembered: readonly Remembered[],
): Promise<void> {
  const here = newest?.commit ?? 0;
  for (const { who, size, tree } of remembered) {
    const more = size > here;
    const log = newest && !more && typeof tree !== "string" ? await LogTree.upTo(storage, newest) : undefined;
    const other =
      typeof tree === "string" ? tree === "other" : log && !(await log.beginsWith({ size, head: tree }));
    if (!more && !other) continue;
    const rooted = (head: Buffer | string | undefined) =>
      Buffer.isBuffer(head) ? ` with root ${head.toString("hex")}` : "";
    const seen = other ? "another log than this one, different in" : "more of the log:";
    throw new UntrustedPredecessorError(
      `${storage.location}: ${who} has seen ${seen} the first ${size} entries${rooted(tree)}; ` +
        `${here} are here${rooted(log?.head)}. A store that was set back signs no second commit of a number: put ` +
        `${layout.commits}, ${layout.logTiles} and ${layout.logCheckpoints} back, from a backup or older versions of ` +
        "the objects. Who says so without reason can be left out of WITNESS_POLICY or CHECKPOINT_FILE",
    );
  }
}

/**
 * What records that a trusted key signed say of the log. A thief can delete them, but make none. Throws StorageError.
 */
export async function evidenceIn(storage: Storage, trust: Trust): Promise<Evidence[]> {
  const [{ checkpoint }, run] = await Promise.all([
    // An older one may have been put in the place of the newest.
    storedCheckpoint(storage, trust, Number.POSITIVE_INFINITY),
    readSmall(storage, layout.checked),
  ]);
  const found: Evidence[] = checkpoint ? [{ key: layout.logCheckpoint, ...checkpoint }] : [];
  const checked = run && parseRun(run);
  if (checked && !trust.run(checked)) found.push({ key: layout.checked, size: checked.commit });
  return found;
}

/**
 * Throws UntrustedPredecessorError unless the log up to `newest` begins with every one that a signed record names,
 * CorruptObjectError when that log is gone, or StorageError.
 */
export async function requireNamed(
  storage: Storage,
  newest: Commit | undefined,
  evidence: readonly Evidence[],
): Promise<void> {
  let tree: LogTree | undefined;
  for (const { key, size, head } of evidence) {
    if (newest && size <= newest.commit) {
      if (head === undefined) continue;
      tree ??= await LogTree.upTo(storage, newest);
      if (await tree.beginsWith({ size, head })) continue;
    }
    const named = `${size}${head ? `, root ${head.toString("hex")}` : ""}`;
    const root = tree ? `, root ${tree.head.toString("hex")}` : "";
    const present = newest ? `its newest commit is ${newest.commit}${root}` : "it has no commit";
    throw new UntrustedPredecessorError(
      `${storage.location}: ${key} is signed and names commit ${named}, which the log does not lead to; ` +
        `${present}. Others can write to this store, or it was set back. Put ${layout.commit(size)} back, ` +
        "from a backup or an older version of the object. If you set it back yourself, delete " +
        `${layout.logCheckpoint}, ${layout.logCheckpoints} and ${layout.checked}; proxies and copies that ` +
        `remember commit ${size} refuse what follows`,
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
