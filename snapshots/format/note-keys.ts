import { bytesOf, fromBase64 } from "./bytes.ts";
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
