import type { TreeHead } from "../../format/log-tree.ts";
import { checkpointIn, NoteError, parseNote } from "../../format/note.ts";
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

/** A tree, for messages. */
export const told = ({ size, head }: TreeHead): string => `${size} entries with root ${head.toString("hex")}`;
