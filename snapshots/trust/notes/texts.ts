import type { ChangeFiles, Checked, Commit, ExportRecord } from "../../../schemas/store/snapshot.ts";
import type { TreeHead } from "../../format/log-tree.ts";
import { checkpointIn, NoteError, parseNote } from "../../format/note.ts";
import { leafHash } from "../../format/tree.ts";
import { entryOf } from "../../store/log/public-log.ts";
import type { Signature } from "../../store/objects.ts";
import type { SigningKey } from "./note-keys.ts";
import { signatureLine, signNote } from "./signed-note.ts";

/** What a checkpoint of c2sp.org/tlog-checkpoint says: the size and the head of a log's tree. */
export interface Checkpoint extends TreeHead {
  origin: string;
}

/** The same with its note. */
export interface NotedCheckpoint extends Checkpoint {
  note: string;
}

/** The text of a checkpoint, without extension lines. */
export function checkpointText({ origin, size, head }: Checkpoint): string {
  return `${origin}\n${size}\n${head.toString("base64")}\n`;
}

/** What a checkpoint is signed with, of Ed25519 and ML-DSA-44. */
interface Keys {
  key?: SigningKey | undefined;
  cosigner?: SigningKey | undefined;
}

/** A checkpoint, signed, and cosigned where there is a key for that. The origin is the keys' name. */
export function signCheckpoint({ key, cosigner }: Keys, { size, head }: TreeHead): string {
  if (!key) throw new RangeError("Without a key there is no checkpoint.");
  const text = checkpointText({ origin: key.name, size, head });
  return signNote(text, key) + (cosigner ? `${signatureLine(cosigner, text)}\n` : "");
}

/** What a checkpoint says, its signatures unchecked. Throws NoteError when it is malformed. */
export function parseCheckpoint(note: string): Checkpoint {
  const { text } = parseNote(note);
  const said = checkpointIn(text);
  if (!said || said.extended || said.size < 1 || said.size >= 1e10)
    throw new NoteError("it is not a checkpoint");
  return { origin: said.origin, size: said.size, head: Buffer.from(said.head) };
}

// The notes that records of a store carry. Their second line is no number, so that nobody takes one for a checkpoint.

/** The text of the note about a commit's own entry of the public log. */
export function entryText(origin: string, commit: Commit): string {
  return `${origin}\nentry ${commit.entry.commit}\n${leafHash(entryOf(commit)).toString("base64")}\n`;
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
