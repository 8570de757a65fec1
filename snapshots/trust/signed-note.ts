import { sign, verify } from "node:crypto";
import { isKeyName, type SigningKey, type VerifierKey } from "./note-keys.ts";

/** A note is malformed, or no trusted key signed it. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** A note as c2sp.org/signed-note has it: a text, and who signed it. */
export interface Note {
  /** With its last line feed. */
  text: string;
  signatures: { name: string; id: string; signature: Buffer; line: string }[];
}

/** A note of which at least one signature was checked. */
export interface OpenedNote {
  text: string;
  signers: VerifierKey[];
  /** The note with the checked signatures alone. Anybody can add lines of keys that nobody knows. */
  note: string;
}

// Sixteen signatures must be accepted. A note is far smaller with those of Ed25519, which are a line of about 100 bytes.
const maxNoteBytes = 16 * 1024;
const maxSignatures = 16;
const idBytes = 4;

/** A note of this text, which ends with a line feed, signed by one key. The same text and key give the same note. */
export function signNote(text: string, { name, id, privateKey }: SigningKey): string {
  const signature = sign(null, Buffer.from(text), privateKey);
  return `${text}\n— ${name} ${Buffer.concat([Buffer.from(id, "hex"), signature]).toString("base64")}\n`;
}

/** Takes a note apart and checks no signature. Throws NoteError. */
export function parseNote(note: string): Note {
  if (Buffer.byteLength(note) > maxNoteBytes) throw new NoteError(`it has more than ${maxNoteBytes} bytes`);
  if (!note.isWellFormed() || /[^\P{Cc}\n]/u.test(note))
    throw new NoteError("it is not UTF-8 text without control characters");
  const cut = note.lastIndexOf("\n\n");
  if (cut < 0 || !note.endsWith("\n"))
    throw new NoteError("it is not a text, an empty line and lines of signatures");
  const lines = note.slice(cut + 2, -1).split("\n");
  if (lines.length > maxSignatures) throw new NoteError(`it has more than ${maxSignatures} signatures`);
  return { text: note.slice(0, cut + 1), signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): Note["signatures"][number] {
  const [, name = "", encoded = ""] = /^— ([^ ]+) ([^ ]+)$/.exec(line) ?? [];
  const bytes = Buffer.from(encoded, "base64");
  // Decoding ignores what is no base64, and bits that a last digit has too many.
  if (!isKeyName(name) || bytes.length <= idBytes || bytes.toString("base64") !== encoded)
    throw new NoteError("it has a line that is no signature behind the empty line");
  const id = bytes.toString("hex", 0, idBytes);
  return { name, id, signature: bytes.subarray(idBytes), line };
}

/**
 * Checks the signatures of the keys given, and ignores those of others. Throws NoteError when the note is malformed, when
 * one of these keys' signatures is wrong, or when there is none.
 */
export function openNote(note: string, keys: readonly VerifierKey[]): OpenedNote {
  const { text, signatures } = parseNote(note);
  const signers: VerifierKey[] = [];
  const lines: string[] = [];
  for (const { name, id, signature, line } of signatures) {
    const key = keys.find((known) => known.name === name && known.id === id);
    if (!key || signers.includes(key)) continue;
    if (!verify(null, Buffer.from(text), key.publicKey, signature))
      throw new NoteError(`the signature of ${name}+${id} is wrong`);
    signers.push(key);
    lines.push(`${line}\n`);
  }
  if (signers.length > 0) return { text, signers, note: `${text}\n${lines.join("")}` };
  const [{ name, id } = { name: "", id: "" }] = signatures;
  throw new NoteError(`no trusted key signed it, but ${name}+${id}`);
}
