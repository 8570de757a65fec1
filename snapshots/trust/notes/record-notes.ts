import type { ChangeFiles, Checked, Commit, ExportRecord } from "../../../schemas/store/snapshot.ts";
import { leafHash } from "../../format/tree.ts";
import { entryOf } from "../../store/log/public-log.ts";
import type { Signature } from "../../store/objects.ts";
import type { SigningKey } from "./note-keys.ts";
import { signNote } from "./signed-note.ts";

// The notes that records of a store carry. Their second line is no number, so that nobody takes one for a checkpoint.

/** The text of the note about a commit's own entry of the public log. */
export function entryText(origin: string, commit: Commit): string {
  return `${origin}\nentry ${commit.commit}\n${leafHash(entryOf(commit)).toString("base64")}\n`;
}

/** A note about a commit's own entry, signed. The origin is the key's name. */
export function signEntry(key: SigningKey, commit: Commit): string {
  return signNote(entryText(key.name, commit), key);
}

/** What the second line of the note of another record says of it: which one it is. */
export const subjectOf = {
  run: ({ checkedAt }: Pick<Checked, "checkedAt">) => `checked ${checkedAt}`,
  export: ({ snapshotId }: Pick<ExportRecord, "snapshotId">) => `export ${snapshotId}`,
  changes: ({ changes }: Pick<ChangeFiles, "changes">) => `changes ${changes}`,
  /** Of a plan or a part of a run, by its key in the store. */
  ofRun: (key: string) => `run ${key}`,
};

/** The text of the note about such a record. */
export function recordText(origin: string, subject: string, digest: string): string {
  return `${origin}\n${subject}\n${Buffer.from(digest, "hex").toString("base64")}\n`;
}

/** What signs such a record; nothing when there is no key. */
export function signRecord(key: SigningKey | undefined, subject: string): (digest: string) => Signature {
  return (digest) => (key ? { note: signNote(recordText(key.name, subject, digest), key) } : {});
}
