import type { TreeHead } from "../../format/log-tree.ts";
import type { SigningKey } from "./note-keys.ts";
import { NoteError, parseNote, signatureLine, signNote } from "./signed-note.ts";

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
  const [origin = "", size = "", head = ""] = text.split("\n");
  const checkpoint = { origin, size: Number(size), head: Buffer.from(head, "base64") };
  const isOne = origin !== "" && /^[1-9]\d{0,9}$/.test(size) && checkpoint.head.length === 32;
  if (!isOne || checkpointText(checkpoint) !== text) throw new NoteError("it is not a checkpoint");
  return checkpoint;
}

/** A tree, for messages. */
export const told = ({ size, head }: TreeHead): string => `${size} entries with root ${head.toString("hex")}`;
