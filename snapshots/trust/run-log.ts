import { Checked, type Commit } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { isBroken, logFrom } from "../store/log/commit-chain.ts";
import { newestCommit, readCommit } from "../store/log/commits.ts";
import { unseal } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";
import { requireTrusted, type Signing, trustOf, UntrustedPredecessorError } from "./signing.ts";
import type { Trust } from "./trust.ts";

/** A commit that a signed record names. */
interface Evidence extends Pick<Commit, "commit"> {
  /** The record's key in the store. */
  key: string;
  /** Where the record tells it. */
  digest?: string;
}

const maxBytes = 64 * 1024;

/**
 * The commit on which a run builds, the newest; undefined in an empty store. With keys in `signing`, one of them must have
 * signed it, and the log must have what signed records name: a run that went on from an earlier commit would sign a second
 * one of the same number. Throws UntrustedPredecessorError, CorruptObjectError or StorageError.
 */
export async function newestForRun(storage: Storage, signing: Signing): Promise<Commit | undefined> {
  const trust = trustOf(signing);
  // Read before the log, which another publisher may be making longer.
  const evidence = trust ? await evidenceIn(storage, trust) : [];
  const newest = await newestCommit(storage);
  if (newest) requireTrusted(storage.location, newest, signing);
  if (!newest || newest.commit !== signing.over) await requireNamed(storage, newest, evidence);
  return newest;
}

/**
 * The same again, right before a run makes the commit that follows `newest`. When another publisher has made it already, nothing is
 * said: the run will find that out.
 */
export async function requireStillNewest(
  storage: Storage,
  newest: Commit | undefined,
  signing: Signing,
): Promise<void> {
  const trust = trustOf(signing);
  if (!trust || (newest && newest.commit === signing.over)) return;
  const evidence = await evidenceIn(storage, trust);
  if (await readCommit(storage, (newest?.commit ?? 0) + 1)) return;
  await requireNamed(storage, newest, evidence);
}

/** What records that a trusted key signed say of the log. A thief can delete them, but make none. Throws StorageError. */
export async function evidenceIn(storage: Storage, trust: Trust): Promise<Evidence[]> {
  const found: Evidence[] = [];
  const [note, run] = await Promise.all(
    [layout.checkpoint, layout.checked].map((key) => readSmall(storage, key)),
  );
  const stated = note && trust.checkpoint(note.toString());
  if (stated) found.push({ key: layout.checkpoint, ...stated });
  const checked = run && parseRun(run);
  if (checked && !trust.run(checked)) found.push({ key: layout.checked, commit: checked.commit });
  return found;
}

/** Throws UntrustedPredecessorError unless `newest` is, or leads back to, every commit that a signed record names. */
export async function requireNamed(
  storage: Storage,
  newest: Commit | undefined,
  evidence: readonly Evidence[],
): Promise<void> {
  for (const { key, commit, digest } of evidence) {
    const reached =
      newest && (await reachedFrom(storage, newest, digest === undefined ? newest.commit : commit));
    const isThere =
      reached && commit <= reached.commit && (digest === undefined || reached.digest === digest);
    if (isThere) continue;
    const present = newest ? `its newest commit is ${newest.commit}` : "it has no commit";
    const wayOut = newest
      ? `publish --sign-over ${newest.commit} goes on from there`
      : `delete ${layout.checkpoint} and ${layout.checked}`;
    throw new UntrustedPredecessorError(
      `${storage.location}: ${key} is signed and names commit ${commit}, which the log does not lead to; ${present}. Others can ` +
        `write to this store, or it was set back. Put ${layout.commit(commit)} back, from a backup or an older version of the ` +
        `object. If you set it back yourself, ${wayOut}; proxies and copies that remember commit ${commit} refuse what follows`,
    );
  }
}

/** The commit of a number that another one leads back to; undefined when the log does not lead there. */
async function reachedFrom(storage: Storage, newest: Commit, number: number): Promise<Commit | undefined> {
  let reached: Commit | undefined;
  try {
    for await (const commit of logFrom(storage, newest, number)) reached = commit;
  } catch (error) {
    if (!isBroken(error)) throw error;
    return undefined;
  }
  return reached;
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
