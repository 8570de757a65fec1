import type { Checked, Commit, ExportRecord } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { parseCheckpoint, recordText, type Stated, says, subjectOf } from "./checkpoint.ts";
import type { VerifierKey } from "./note-keys.ts";
import { NoteError, openNote, parseNote } from "./signed-note.ts";

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

/** Whose records are believed. Whoever can write to the store, but has none of the private keys, can make none. */
export class Trust {
  readonly #keys: readonly VerifierKey[];

  constructor(keys: readonly VerifierKey[]) {
    this.#keys = keys;
  }

  /** A commit with no more of its checkpoint than trusted keys have signed, or why it is not trusted. */
  commit(commit: Commit): Commit | UntrustedError {
    const { checkpoint } = commit;
    const checked = this.#open(checkpoint, (text, name) => says(text, name, commit));
    if (typeof checked === "string") return { ...commit, checkpoint: checked };
    return new UntrustedError(layout.commit(commit.commit), checked.reason);
  }

  /** What a checkpoint says of a commit; undefined when no trusted key signed it. */
  checkpoint(note: string): Stated | undefined {
    try {
      const { origin, ...stated } = parseCheckpoint(note);
      const checked = this.#open(note, (text, name) => name === origin && says(text, name, stated));
      return typeof checked === "string" ? stated : undefined;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      return undefined;
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

/** Throws CorruptObjectError when a commit's checkpoint is malformed or is about another one. Checks no signature. */
export function checkAgreement({ checkpoint, ...commit }: Commit): void {
  if (checkpoint === undefined) return;
  const key = layout.commit(commit.commit);
  try {
    const { text } = parseNote(checkpoint);
    const [origin = ""] = text.split("\n", 1);
    if (!says(text, origin, commit)) throw new NoteError("it is about something else");
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new CorruptObjectError(key, `its checkpoint cannot be right: ${error.message}`, { cause: error });
  }
}
