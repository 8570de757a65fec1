import { checkSignature, signatureOf } from "./cosignature.ts";
import type { SigningKey, VerifierKey } from "./note-keys.ts";

/** A note is malformed, or no trusted key signed it. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** A note as c2sp.org/signed-note has it: a text, and who signed it. */
export interface Note {
  /** With its last line feed. */
  text: string;
  signatures: NoteSignature[];
}

/** A signature line, without its line feed. */
export interface NoteSignature {
  name: string;
  id: string;
  signature: Buffer;
  line: string;
}

/** A note of which at least one signature was checked. */
export interface OpenedNote {
  text: string;
  signers: VerifierKey[];
  /** Those of the keys whose signatures this platform cannot check. They count for nothing. */
  unchecked: VerifierKey[];
  /** The note with the checked signatures alone. Anybody can add lines of keys that nobody knows. */
  note: string;
}

// A log's own signatures and those of 32 witnesses have room: a line of ML-DSA-44 has 3.3 kB.
export const maxNoteBytes = 128 * 1024;
const maxSignatures = 64;
const idBytes = 4;

/** A note of this text, which ends with a line feed, signed by one key. The same text and key give the same note. */
export function signNote(text: string, key: SigningKey): string {
  return `${text}\n${signatureLine(key, text)}\n`;
}

/**
 * The line of one key's signature of a text, without a line feed. `time` is that of a cosignature, in seconds since
 * 1970.
 */
export function signatureLine(key: SigningKey, text: string, time?: number): string {
  const signature = signatureOf(key, text, time);
  return `— ${key.name} ${Buffer.concat([Buffer.from(key.id, "hex"), signature]).toString("base64")}`;
}

/** Takes a note apart and checks no signature. */
export function parseNote(note: string): Note {
  if (Buffer.byteLength(note) > maxNoteBytes) throw new NoteError(`it has more than ${maxNoteBytes} bytes`);
  if (!note.isWellFormed() || /[^\P{Cc}\n\x7f-\x9f]/u.test(note))
    throw new NoteError("it is not UTF-8 text without control characters");
  const cut = note.lastIndexOf("\n\n");
  if (cut < 0 || !note.endsWith("\n"))
    throw new NoteError("it is not a text, an empty line and lines of signatures");
  const lines = note.slice(cut + 2, -1).split("\n");
  if (lines.length > maxSignatures) throw new NoteError(`it has more than ${maxSignatures} signatures`);
  return { text: note.slice(0, cut + 1), signatures: lines.map(parseSignature) };
}

/** Takes a signature line apart. */
export function parseSignature(line: string): NoteSignature {
  const [, name = "", encoded = ""] = /^— ([^ ]+) ([^ ]+)$/.exec(line) ?? [];
  const bytes = Buffer.from(encoded, "base64");
  // Decoding ignores what is no base64, and bits that a last digit has too many.
  if (!/^[^\s\u0085+]+$/u.test(name) || bytes.length <= idBytes || bytes.toString("base64") !== encoded)
    throw new NoteError("it has a line that is no signature behind the empty line");
  const id = bytes.toString("hex", 0, idBytes);
  return { name, id, signature: bytes.subarray(idBytes), line };
}

/**
 * Checks the signatures of the keys given, and ignores those of others. Throws NoteError when the note is malformed,
 * when one of these keys' signatures is wrong, or when there is none.
 */
export function openNote(note: string, keys: readonly VerifierKey[]): OpenedNote {
  const { text, signatures } = parseNote(note);
  const [signers, unchecked]: [VerifierKey[], VerifierKey[]] = [[], []];
  const lines: string[] = [];
  for (const { name, id, signature, line } of signatures) {
    const key = keys.find((known) => known.name === name && known.id === id);
    if (!key || signers.includes(key)) continue;
    const finding = checkSignature(key, text, signature);
    if (finding === "wrong") throw new NoteError(`the signature of ${name}+${id} is wrong`);
    if (finding === "right") lines.push(`${line}\n`);
    (finding === "right" ? signers : unchecked).push(key);
  }
  if (signers.length > 0) return { text, signers, unchecked, note: `${text}\n${lines.join("")}` };
  const [{ name, id } = { name: "", id: "" }] = unchecked.length > 0 ? unchecked : signatures;
  const reason = unchecked.length > 0 ? `${name}+${id}, which this platform cannot check` : `${name}+${id}`;
  throw new NoteError(`no trusted key signed it, but ${reason}`);
}

/**
 * A note with the signatures that any of several notes of one text has, each key's once. Of these keys wrong ones are
 * left out; those of others are kept, as far as there is room: whoever knows them may count them.
 */
export function mergeNotes(notes: readonly string[], keys: readonly VerifierKey[]): string {
  const parsed = notes.map(parseNote);
  const { text } = parsed[0]!;
  const [known, others] = [new Map<string, string>(), new Map<string, string>()];
  for (const { signatures } of parsed.filter((note) => note.text === text)) {
    for (const { name, id, signature, line } of signatures) {
      const key = keys.find((each) => each.name === name && each.id === id);
      const lines = key ? known : others;
      if (!lines.has(`${name}+${id}`) && (!key || checkSignature(key, text, signature) !== "wrong"))
        lines.set(`${name}+${id}`, `${line}\n`);
    }
  }
  let merged = `${text}\n`;
  for (const line of [...known.values(), ...others.values()].slice(0, maxSignatures))
    if (Buffer.byteLength(merged + line) <= maxNoteBytes) merged += line;
  return merged;
}
