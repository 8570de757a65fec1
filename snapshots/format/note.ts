import { bytesOf, fromBase64, toHex } from "./bytes.ts";
import { joined } from "./hash-trees.ts";

// Texts of keys, taken apart. What hashes, in Node at once and in browsers by and by, compares their ids.

/** A key's text is not as c2sp.org/signed-note and its first implementation, Go's note, write it. */
export class NoteKeyError extends Error {
  override readonly name = "NoteKeyError";
}

/** How keys sign: a note as it is, or a checkpoint together with the time at which it was seen (tlog-cosignature). */
const kinds = {
  ed25519: { type: 0x01, called: "Ed25519", bytes: 32 },
  "cosignature-ed25519": { type: 0x04, called: "Ed25519 cosignature", bytes: 32 },
  "ml-dsa-44": { type: 0x06, called: "ML-DSA-44", bytes: 1312 },
} as const;

/** How a key signs. */
export type KeyKind = keyof typeof kinds;

/** A public key that signatures are checked with. Name and id together identify it. */
export interface VerifierKey {
  readonly name: string;
  /** 8 hex digits. */
  readonly id: string;
  readonly kind: KeyKind;
  /** The key itself: 32 bytes, or the 1,312 of ML-DSA-44. */
  readonly raw: Uint8Array<ArrayBuffer>;
}

/** Whether a key may be called so: without spaces, plus signs and what a terminal would not show. */
export function isKeyName(name: string): boolean {
  return /^[^\s\p{C}+]{1,200}$/u.test(name);
}

/** What keys of a kind are called in messages, such as "Ed25519". */
export function kindName(kind: KeyKind): string {
  return kinds[kind].called;
}

/**
 * Reads `NAME+ID+BASE64`, whose id is still to be checked: a public key, or a private one, which has `length` bytes.
 * Throws NoteKeyError, which never repeats the text.
 */
export function keyIn(text: string, length?: number): VerifierKey {
  const [, name = "", id = "", encoded = ""] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? [];
  if (!isKeyName(name)) throw new NoteKeyError("it is not of the form NAME+ID+BASE64");
  const bytes = fromBase64(encoded);
  if (!bytes) throw new NoteKeyError("its last part is not base64");
  const kind = (Object.keys(kinds) as KeyKind[]).find((each) => kinds[each].type === bytes[0]);
  if (!kind) throw new NoteKeyError("it is neither an Ed25519 nor an ML-DSA-44 key");
  const raw = bytes.slice(1);
  if (raw.length !== (length ?? kinds[kind].bytes))
    throw new NoteKeyError(`it is not an ${kindName(kind)} key: its last part has another length`);
  return { name, id, kind, raw };
}

/** What the last part of a key's text encodes. */
export const typed = (kind: KeyKind, bytes: Uint8Array) => Uint8Array.of(kinds[kind].type, ...bytes);

/** A key's id is the beginning of the SHA-256 of these bytes, which are good until the next call of `joined`. */
export const identified = ({ name, kind, raw }: Omit<VerifierKey, "id">) =>
  joined([bytesOf(`${name}\n`), typed(kind, raw)]);

/** Throws NoteKeyError unless the key has this id, which shows a key or a name that was mistyped. */
export function matching<Key extends VerifierKey>(key: Key, id: string): Key {
  if (key.id === id) return key;
  throw new NoteKeyError(`its id is ${key.id}, but that of this name and key is ${id}`);
}

// Signed notes and checkpoints, taken apart: whoever checks their signatures, in Node or in a browser, begins here.

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
  signature: Uint8Array<ArrayBuffer>;
  line: string;
}

// A log's own signatures and those of 32 witnesses have room: a line of ML-DSA-44 has 3.3 kB.
export const maxNoteBytes = 128 * 1024;
export const maxSignatures = 64;
const idBytes = 4;
const timeBytes = 8;

/** Takes a note apart and checks no signature. */
export function parseNote(note: string): Note {
  if (bytesOf(note).length > maxNoteBytes) throw new NoteError(`it has more than ${maxNoteBytes} bytes`);
  if (/[^\P{Cc}\n\x7f-\x9f]|\p{Cs}/u.test(note))
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
  const [, name = "", encoded = ""] = /^— ([^\s\u0085+]+) ([^ ]+)$/u.exec(line) ?? [];
  const bytes = fromBase64(encoded);
  if (!bytes || bytes.length <= idBytes)
    throw new NoteError("it has a line that is no signature behind the empty line");
  return { name, id: toHex(bytes.subarray(0, idBytes)), signature: bytes.slice(idBytes), line };
}

/** What the lines of a checkpoint say, and whether others follow them; undefined when the text is none. */
export function checkpointIn(text: string) {
  const [origin = "", size = "", root = "", ...others] = text.split("\n");
  const head = fromBase64(root);
  if (origin === "" || !/^(0|[1-9]\d{0,15})$/.test(size) || head?.length !== 32 || others.length === 0)
    return undefined;
  return { origin, size: Number(size), head, extended: others.length > 1 || others[0] !== "" };
}

/** How a key signs, and what it is called. */
type Signer = Pick<VerifierKey, "kind" | "name">;

/** What a cosigner signs (c2sp.org/tlog-cosignature); undefined when the text is no checkpoint. */
export function cosignedMessage({ kind, name: signer }: Signer, text: string, time: bigint) {
  const checkpoint = checkpointIn(text);
  if (!checkpoint) return undefined;
  if (kind !== "ml-dsa-44") return bytesOf(`cosignature/v1\ntime ${time}\n${text}`);
  const [name, origin] = [bytesOf(signer), bytesOf(checkpoint.origin)];
  // Extension lines are not signed: who read them would believe what nobody vouches for.
  if (checkpoint.extended || name.length > 255 || origin.length > 255) return undefined;
  const numbers = new DataView(new ArrayBuffer(24));
  numbers.setBigUint64(0, time);
  numbers.setBigUint64(16, BigInt(checkpoint.size));
  const [seconds, range] = [new Uint8Array(numbers.buffer, 0, 8), new Uint8Array(numbers.buffer, 8)];
  const parts = [[name.length], name, seconds, [origin.length], origin, range, checkpoint.head];
  return joined([bytesOf("subtree/v1\n\0"), ...parts]).slice();
}

/** The time of a cosignature, in seconds since 1970, which stands before it; undefined where none can be. */
export function cosignatureTime(signature: Uint8Array): bigint | undefined {
  if (signature.length <= timeBytes) return undefined;
  const time = new DataView(signature.buffer, signature.byteOffset).getBigInt64(0);
  return time < 0n ? undefined : time;
}

/** The message that a signature is about, and what signs it, without a cosignature's time; undefined where none can. */
export function signedIn(key: Signer, text: string, signature: Uint8Array<ArrayBuffer>) {
  if (key.kind === "ed25519") return { message: bytesOf(text), signature };
  const time = cosignatureTime(signature);
  const message = time === undefined ? undefined : cosignedMessage(key, text, time);
  return message && { message, signature: signature.subarray(timeBytes) };
}
