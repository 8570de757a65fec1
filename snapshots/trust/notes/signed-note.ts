import { maxNoteBytes, maxSignatures, NoteError, type NoteSignature, parseNote } from "../../format/note.ts";
import type { VerifierKey } from "../../format/note-keys.ts";
import { checkSignature, signatureOf } from "./cosignature.ts";
import type { SigningKey } from "./note-keys.ts";

/** A note of which at least one signature was checked. */
export interface OpenedNote {
  text: string;
  signers: VerifierKey[];
  /** Those of the keys whose signatures this platform cannot check. They count for nothing. */
  unchecked: VerifierKey[];
  /** The note with the checked signatures alone. Anybody can add lines of keys that nobody knows. */
  note: string;
}

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
 * A note with the signatures that the stored one of the same text has too, each key's once, and those first. Of these
 * keys wrong ones are left out; those of others are kept, as far as there is room: whoever knows them may count them.
 */
export function mergeNotes(note: string, stored: string | undefined, keys: readonly VerifierKey[]): string {
  const { text, signatures } = parseNote(note);
  const [known, others] = [new Map<string, string>(), new Map<string, string>()];
  for (const { name, id, signature, line } of [...signaturesOf(stored, text), ...signatures]) {
    const key = keys.find((each) => each.name === name && each.id === id);
    const lines = key ? known : others;
    if (!lines.has(`${name}+${id}`) && (!key || checkSignature(key, text, signature) !== "wrong"))
      lines.set(`${name}+${id}`, `${line}\n`);
  }
  let merged = `${text}\n`;
  for (const line of [...known.values(), ...others.values()].slice(0, maxSignatures))
    if (Buffer.byteLength(merged + line) <= maxNoteBytes) merged += line;
  return merged;
}

/** None where a note is malformed or of another text. */
function signaturesOf(note: string | undefined, text: string): NoteSignature[] {
  try {
    const parsed = parseNote(note ?? "");
    return parsed.text === text ? parsed.signatures : [];
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return [];
  }
}
