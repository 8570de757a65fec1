import { Fault } from "../../schemas/errors.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import type { VerifierKey } from "../format/note.ts";
import type { ObjectError } from "../store/errors.ts";
import type { SignCommit } from "../store/log/commits.ts";
import type { Storage } from "../store/storage.ts";
import type { CheckpointFile } from "./log/checkpoints.ts";
import type { SigningKey } from "./notes/note-keys.ts";
import { signEntry } from "./notes/signed-note.ts";
import { Trust, type UntrustedError } from "./trust.ts";
import type { Witnesses } from "./witnesses/witnesses.ts";

/** How a run signs, and on whose commits it builds: on any, unless there is a key. */
export interface Signing {
  key?: SigningKey | undefined;
  /** A key of ML-DSA-44 of the same name, with which the run cosigns its checkpoints. */
  cosigner?: SigningKey | undefined;
  /** Whom the run asks to cosign them. */
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

/**
 * Throws UNTRUSTED_PREDECESSOR when a run without a key would write into a store of which the newest commit is
 * signed: nobody who trusts keys would believe what it makes, and no signed run could go on from that.
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
 * Throws UNTRUSTED_PREDECESSOR unless a trusted key signed the commit. A signature vouches for all commits before
 * it too, so a run that built on whatever it finds would sign what a thief has put there.
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

/** The error of a run that finds a plan or a part of it in the store that it does not believe. */
export function refuseUntrustedRun(location: string, refusal: Error): Fault {
  const wayOut = "Give SIGNING_KEY to the plan, all parts and the join of a run, and plan another";
  return new Fault("UNTRUSTED_PREDECESSOR", `${location}: ${refusal.message}. ${wayOut}`, {
    cause: refusal,
  });
}

/** Whose records a run builds on; undefined when it builds on anybody's. */
export function trustOf({ key, trusted = [] }: Signing): Trust | undefined {
  const keys = key ? [key, ...trusted] : trusted;
  return keys.length > 0 ? new Trust(keys) : undefined;
}

/** Whether a run has a key that has not signed a commit. */
export function lacksSignature(commit: Commit, { key }: Signing): boolean {
  return key !== undefined && new Trust([key]).refusalOfCommit(commit) !== undefined;
}

/** What signs a new commit; nothing when there is no key. */
export function signerOf({ key }: Signing): SignCommit {
  return (commit) => (key ? { note: signEntry(key, commit) } : {});
}
