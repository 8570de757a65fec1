import type { Checked, Commit } from "../../schemas/store/stored-objects.ts";
import {
  isQuorum,
  kindName,
  NoteError,
  type Policy,
  parseNote,
  policyOf,
  type VerifierKey,
} from "../format/note.ts";
import { CorruptObjectError, unless, unlessSync } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { lastAfter, readCommit } from "../store/log/commits.ts";
import type { Storage } from "../store/storage.ts";
import {
  entryText,
  type NotedCheckpoint,
  openNote,
  parseCheckpoint,
  recordText,
  subjectOf,
} from "./notes/signed-note.ts";

/** A record of the store is not signed by a trusted key. */
export class UntrustedError extends CorruptObjectError {
  override readonly name = "UntrustedError";
}

/** Whose records are believed. Write access to the store is not enough to forge one. */
export class Trust {
  readonly #policy: Policy;
  readonly #keys: readonly VerifierKey[];

  /** Keys alone are those of logs, and ask for no witness. */
  constructor(policy: Policy | readonly VerifierKey[]) {
    this.#policy = "logs" in policy ? policy : policyOf(policy);
    this.#keys = this.#policy.logs.map(({ key }) => key);
  }

  /** Why a commit is not trusted; undefined when a trusted key signed its entry. */
  refusalOfCommit(commit: Commit): UntrustedError | undefined {
    return this.#refusal(layout.commit(commit.entry.commit), commit.note, (name) => entryText(name, commit));
  }

  /**
   * A checkpoint that a log signed, or why it is none. `lacking` says what else the policy asks for. The note has the
   * checked signatures alone.
   */
  checkpoint(note: string): (NotedCheckpoint & ReturnType<typeof judgeNote>) | { reason: string } {
    const read = () => {
      const judged = judgeNote(this.#policy, note);
      return { ...parseCheckpoint(judged.note), ...judged };
    };
    return unlessSync(NoteError, read, ({ message }) => ({ reason: message }));
  }

  /** Why the record of a run, an export or exported changes is not trusted; undefined when it is. */
  refusalOf(key: string, record: Pick<Checked, "digest" | "note">): UntrustedError | undefined {
    const subject = subjectOf(key, record);
    return this.#refusal(key, record.note, (name) => recordText(name, subject, record.digest));
  }

  /** The text of the note must be the one expected of a key that signed it, by that key's name. */
  #refusal(
    key: string,
    note: string | undefined,
    expected: (name: string) => string,
  ): UntrustedError | undefined {
    if (note === undefined) return new UntrustedError(key, "nobody signed it");
    const refused = (reason: string) => new UntrustedError(key, reason);
    const judged = () => {
      const { text, signers } = openNote(note, this.#keys);
      if (signers.some(({ name }) => text === expected(name))) return undefined;
      return refused("its signature is for something else");
    };
    return unlessSync(NoteError, judged, ({ message }) =>
      refused(`its signature does not count: ${message}`),
    );
  }
}

/**
 * Checks who signed a checkpoint. `lacking` says why the cosignatures are not enough; undefined when they are. Throws
 * NoteError when it is malformed, no log did, or a known key's signature is wrong.
 */
export function judgeNote(policy: Policy, note: string) {
  const { logs, witnesses } = policy;
  const keys = [...logs, ...witnesses].map(({ key }) => key);
  const { text, signers, unchecked, note: checked } = openNote(note, keys);
  const origin = text.slice(0, text.indexOf("\n"));
  if (!logs.some(({ key }) => key.name === origin && signers.includes(key)))
    throw new NoteError(`no log of the policy called ${origin} signed it`);
  const isEnough = isQuorum(policy, new Set(signers));
  return { lacking: isEnough ? undefined : whyLacking(policy, signers, unchecked), note: checked };
}

function whyLacking(
  { quorum, witnesses }: Policy,
  signers: readonly VerifierKey[],
  unchecked: readonly VerifierKey[],
): string {
  const did = witnesses.filter(({ key }) => signers.includes(key)).map(({ name }) => name);
  const cannot = witnesses.filter(({ key }) => unchecked.includes(key));
  const others = witnesses.filter((witness) => !did.includes(witness.name) && !cannot.includes(witness));
  const parts = [
    `${did.join(", ") || "no witness"} cosigned`,
    ...(others.length > 0 ? [`${others.map(({ name }) => name).join(", ")} did not`] : []),
    ...cannot.map(
      ({ name, key }) => `${name} did with ${kindName(key.kind)}, which this platform cannot check`,
    ),
  ];
  return `the quorum ${quorum?.name} is not reached: ${parts.join("; ")}`;
}

/** Throws CorruptObjectError when a commit's note is malformed or is about another one. Checks no signature. */
export function checkAgreement(commit: Commit): void {
  const { note } = commit;
  if (note === undefined) return;
  const refuse = (reason: string): never => {
    throw new CorruptObjectError(layout.commit(commit.entry.commit), `its note cannot be right: ${reason}`);
  };
  const { text } = unlessSync(
    NoteError,
    () => parseNote(note),
    ({ message }) => refuse(message),
  );
  const [origin = ""] = text.split("\n", 1);
  if (text !== entryText(origin, commit)) refuse("it is about something else");
}

/** A search gives up after this many commits in a row that cannot be believed: anybody may have put them there. */
const maxRefused = 100;

/** The newest commit from `start` on; with `trust` the newest that a trusted key signed, whatever stands between. */
export async function newestTrustedFrom(
  storage: Storage,
  start: Commit,
  trust: Trust | undefined,
): Promise<Commit> {
  if (!trust) return lastAfter(storage, start);
  let newest = start;
  for (let number = start.entry.commit + 1; number - newest.entry.commit <= maxRefused; number += 1) {
    const commit = await judge(storage, trust, number);
    if (!commit) break;
    if (!(commit instanceof Error)) newest = commit;
  }
  return newest;
}

/** A commit, or why it cannot be believed; undefined when there is none. */
export async function judge(
  storage: Storage,
  trust: Trust,
  number: number,
): Promise<Commit | CorruptObjectError | undefined> {
  const read = () => readCommit(storage, number);
  const commit = await unless(CorruptObjectError, read, (error) => error);
  if (commit === undefined || commit instanceof Error) return commit;
  return trust.refusalOfCommit(commit) ?? commit;
}
