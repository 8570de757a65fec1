import type { Checked, Commit, ExportRecord } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { recordText, says, subjectOf } from "./checkpoint.ts";
import { type Cosigner, type Judged, judgeNote } from "./judge.ts";
import type { VerifierKey } from "./note-keys.ts";
import { type Policy, policyOf } from "./policy.ts";
import { NoteError, openNote, parseNote } from "./signed-note.ts";
import { entryText, type NotedCheckpoint, parseTree } from "./tree-head.ts";

/** A record of the store is not signed by a trusted key. The message begins with the record's key in the store. */
export class UntrustedError extends Error {
  override readonly name = "UntrustedError";
  readonly key: string;
  readonly reason: string;

  constructor(key: string, reason: string) {
    super(`${key}: ${reason}`);
    this.key = key;
    this.reason = reason;
  }
}

/** A checkpoint that counts, and its note with the checked signatures alone. */
export interface TrustedCheckpoint extends NotedCheckpoint {
  cosigners: Cosigner[];
}

/** Whose records are believed. Whoever can write to the store, but has none of the private keys, can make none. */
export class Trust {
  readonly #policy: Policy;
  readonly #keys: readonly VerifierKey[];

  /** By a policy, or by keys of logs alone. */
  constructor(policy: Policy | readonly VerifierKey[]) {
    this.#policy = "logs" in policy ? policy : policyOf(policy);
    this.#keys = this.#policy.logs.map(({ key }) => key);
  }

  /** Why a commit is not trusted: nobody whose key is trusted signed its entry. Undefined when somebody did. */
  commit(commit: Commit): UntrustedError | undefined {
    const checked = this.#open(commit.note, (text, name) => text === entryText(name, commit));
    return typeof checked === "string"
      ? undefined
      : new UntrustedError(layout.commit(commit.commit), checked.reason);
  }

  /** What trusted keys have signed of a commit's checkpoint. */
  checkpointOf(commit: Commit): string | undefined {
    const checked = this.#open(commit.checkpoint, (text, name) => says(text, name, commit));
    return typeof checked === "string" ? checked : undefined;
  }

  /**
   * What a checkpoint of the public log says that the policy is satisfied with, with no more of its note than counts;
   * or why it is not.
   */
  tree(note: string): TrustedCheckpoint | { reason: string } {
    const signed = this.signedTree(note);
    return "reason" in signed || signed.lacking === undefined ? signed : { reason: signed.lacking };
  }

  /** The same of one that a log signed, whoever cosigned it. */
  signedTree(note: string): (TrustedCheckpoint & Pick<Judged, "lacking">) | { reason: string } {
    try {
      const { note: checked, cosigners, lacking } = judgeNote(this.#policy, note);
      return { ...parseTree(checked), note: checked, cosigners, lacking };
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      return { reason: error.message };
    }
  }

  /** Why the record of a publish run is not trusted; undefined when it is. */
  run(run: Checked): UntrustedError | undefined {
    return this.#record(layout.checked, subjectOf.run(run), run);
  }

  /** Why the record of an export is not trusted; undefined when it is. */
  export(record: ExportRecord): UntrustedError | undefined {
    return this.#record(layout.exportRecord(record.snapshotId), subjectOf.export(record), record);
  }

  #record(
    key: string,
    subject: string,
    { digest, note }: { digest: string; note?: string | undefined },
  ): UntrustedError | undefined {
    const checked = this.#open(note, (text, name) => text === recordText(name, subject, digest));
    return typeof checked === "string" ? undefined : new UntrustedError(key, checked.reason);
  }

  /** The checked part of a note, if its text is the one expected from a key of that name that signed it. */
  #open(
    note: string | undefined,
    expected: (text: string, name: string) => boolean,
  ): string | { reason: string } {
    if (note === undefined) return { reason: "nobody signed it" };
    try {
      const opened = openNote(note, this.#keys);
      if (opened.signers.some(({ name }) => expected(opened.text, name))) return opened.note;
      return { reason: "its signature is for something else" };
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      return { reason: `its signature does not count: ${error.message}` };
    }
  }
}

/** Throws CorruptObjectError when a note of a commit is malformed or is about another one. Checks no signature. */
export function checkAgreement(commit: Commit): void {
  const { checkpoint, note } = commit;
  const about = (
    name: string,
    found: string | undefined,
    agrees: (text: string, origin: string) => boolean,
  ) => {
    if (found === undefined) return;
    try {
      const { text } = parseNote(found);
      const [origin = ""] = text.split("\n", 1);
      if (!agrees(text, origin)) throw new NoteError("it is about something else");
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      const reason = `its ${name} cannot be right: ${error.message}`;
      throw new CorruptObjectError(layout.commit(commit.commit), reason, { cause: error });
    }
  };
  about("checkpoint", checkpoint, (text, origin) => says(text, origin, commit));
  about("note", note, (text, origin) => text === entryText(origin, commit));
}
