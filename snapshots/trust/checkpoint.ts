import type { Checked, Commit, ExportRecord } from "../../schemas/snapshot.ts";
import type { Signature } from "../store/records.ts";
import type { SigningKey } from "./note-keys.ts";
import { NoteError, parseNote, signNote } from "./signed-note.ts";

/** What a checkpoint says of a commit (snapshots/SPEC.md, "Checkpoints"). */
export type Stated = Pick<Commit, "commit" | "digest" | "snapshotId">;

/** The text of a commit's checkpoint, as c2sp.org/tlog-checkpoint has it, with one extension line. */
export function checkpointText(origin: string, { commit, digest, snapshotId }: Stated): string {
  return `${origin}\n${commit}\n${base64Of(digest)}\nsnapshot ${snapshotId}\n`;
}

/** A commit's checkpoint, signed. The origin is the key's name. */
export function signCheckpoint(key: SigningKey, stated: Stated): string {
  return signNote(checkpointText(key.name, stated), key);
}

/** What a checkpoint says, its signatures unchecked. Throws NoteError when it is malformed. */
export function parseCheckpoint(note: string): Stated & { origin: string } {
  const { text } = parseNote(note);
  const [origin = "", number = "", root = "", extension = ""] = text.split("\n");
  const stated = {
    commit: Number(number),
    digest: Buffer.from(root, "base64").toString("hex"),
    snapshotId: extension.slice("snapshot ".length),
  };
  if (!/^[1-9]\d{0,15}$/.test(number) || !says(text, origin, stated))
    throw new NoteError("it is not a checkpoint of a commit");
  return { origin, ...stated };
}

/** Whether a text is the checkpoint of this commit. Further extension lines may follow. */
export function says(text: string, origin: string, stated: Stated): boolean {
  return (
    /^[0-9a-f]{64}$/.test(stated.digest) &&
    /^[0-9a-f]{64}$/.test(stated.snapshotId) &&
    origin !== "" &&
    text.startsWith(checkpointText(origin, stated)) &&
    !text.includes("\n\n")
  );
}

/** A record of another kind than a commit, and what the second line of its note says of it: which one it is. */
export const subjectOf = {
  run: ({ checkedAt }: Pick<Checked, "checkedAt">) => `checked ${checkedAt}`,
  export: ({ snapshotId }: Pick<ExportRecord, "snapshotId">) => `export ${snapshotId}`,
};

/** The text of the note about such a record. Its second line is no number, so that nobody takes it for a checkpoint. */
export function recordText(origin: string, subject: string, digest: string): string {
  return `${origin}\n${subject}\n${base64Of(digest)}\n`;
}

/** What signs such a record; nothing when there is no key. */
export function signRecord(key: SigningKey | undefined, subject: string): (digest: string) => Signature {
  return (digest) => (key ? { note: signNote(recordText(key.name, subject, digest), key) } : {});
}

function base64Of(digest: string): string {
  return Buffer.from(digest, "hex").toString("base64");
}
