import type { Checked, Commit } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import { parseCheckpoint, runText, says } from "./checkpoint.ts";
import type { VerifierKey } from "./note-keys.ts";
import { NoteError, openNote } from "./signed-note.ts";

/** A record of the store is not signed by a trusted key. The message begins with the record's key in the store. */
export class UntrustedError extends Error {
  override readonly name = "UntrustedError";
  readonly key: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
  }
}

/** Whose records are believed. Whoever can write to the store, but has none of the private keys, can make none. */
export class Trust {
  readonly #keys: readonly VerifierKey[];

  constructor(keys: readonly VerifierKey[]) {
    this.#keys = keys;
  }

  /** A commit with no more of its checkpoint than trusted keys have signed. Throws UntrustedError. */
  commit(commit: Commit): Commit {
    const key = layout.commit(commit.commit);
    const checkpoint = this.#open(key, "checkpoint", commit.checkpoint, (text, name) => says(text, name, commit));
    return { ...commit, checkpoint };
  }

  /** Throws UntrustedError unless a trusted key signed this record of a publish run. */
  checked(checked: Checked): void {
    this.#open(layout.checked, "note", checked.note, (text, name) => text === runText(name, checked));
  }

  /** The checked part of a note whose text, under the name of a key that signed it, is as expected. */
  #open(
    key: string,
    member: string,
    note: string | undefined,
    expected: (text: string, name: string) => boolean,
  ): string {
    if (note === undefined) throw new UntrustedError(key, `it has no ${member}, so nobody signed it`);
    try {
      const opened = openNote(note, this.#keys);
      if (opened.signers.some(({ name }) => expected(opened.text, name))) return opened.note;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      throw new UntrustedError(key, `its ${member} cannot be trusted: ${error.message}`, { cause: error });
    }
    throw new UntrustedError(key, `its ${member} was signed for something else`);
  }
}

/**
 * Throws NoteError when a commit's checkpoint is malformed, or is not about this commit under any origin. Checks no
 * signature.
 */
export function checkAgreement(commit: Commit): void {
  if (commit.checkpoint === undefined) return;
  const { commit: number, digest, snapshotId } = parseCheckpoint(commit.checkpoint);
  if (number !== commit.commit || digest !== commit.digest || snapshotId !== commit.snapshotId)
    throw new NoteError(`it is about commit ${number} with the digest ${digest}`);
}
