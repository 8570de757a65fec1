import { createPrivateKey, createPublicKey, hash, type KeyObject, randomBytes } from "node:crypto";

/** A key's text is not as c2sp.org/signed-note and its first implementation, Go's note, write it. */
export class NoteKeyError extends Error {
  override readonly name = "NoteKeyError";
}

/** A public key that signatures are checked with. Name and id together identify it. */
export interface VerifierKey {
  readonly name: string;
  /** 8 hex digits. */
  readonly id: string;
  readonly publicKey: KeyObject;
}

/** A key that signs. */
export interface SigningKey extends VerifierKey {
  readonly privateKey: KeyObject;
}

/** The signature type byte of Ed25519. */
const ed25519 = Buffer.of(0x01);
const keyBytes = 32;
/** What DER puts before the 32 bytes of an Ed25519 key (RFC 8410). */
const der = {
  private: Buffer.from("302e020100300506032b657004220420", "hex"),
  public: Buffer.from("302a300506032b6570032100", "hex"),
};
const privatePrefix = "PRIVATE+KEY+";

/** Whether a key may be called so: without spaces, plus signs and what a terminal would not show. */
export function isKeyName(name: string): boolean {
  return /^[^\s\p{C}+]{1,200}$/u.test(name);
}

/** The text of a new private key: `PRIVATE+KEY+<name>+<id>+<base64>`. `seed` is 32 random bytes. */
export function newSigningKey(name: string, seed = randomBytes(keyBytes)): string {
  const { id } = publicPart(name, privateKeyOf(seed));
  return `${privatePrefix}${name}+${id}+${Buffer.concat([ed25519, seed]).toString("base64")}`;
}

/** The text of a public key: `<name>+<id>+<base64>`. */
export function verifierText({ name, id, publicKey }: VerifierKey): string {
  return `${name}+${id}+${Buffer.concat([ed25519, rawOf(publicKey)]).toString("base64")}`;
}

/** Reads the text of a private key. Throws NoteKeyError, which never repeats the text. */
export function parseSigningKey(text: string): SigningKey {
  if (!text.startsWith(privatePrefix)) throw new NoteKeyError(`it does not begin with ${privatePrefix}`);
  const { name, id, raw } = partsOf(text.slice(privatePrefix.length));
  const privateKey = privateKeyOf(raw);
  return { ...matching(publicPart(name, privateKey), id), privateKey };
}

/** Reads the text of a public key. Throws NoteKeyError, which never repeats the text. */
export function parseVerifierKey(text: string): VerifierKey {
  // Repeating it would put the secret into logs.
  if (text.startsWith(privatePrefix))
    throw new NoteKeyError("it is a private key; the public one is in the file whose name ends in .pub");
  const { name, id, raw } = partsOf(text);
  const publicKey = createPublicKey({
    key: Buffer.concat([der.public, raw]),
    format: "der",
    type: "spki",
  });
  return matching(publicPart(name, publicKey), id);
}

function partsOf(text: string): { name: string; id: string; raw: Buffer } {
  const [, name = "", id = "", encoded = ""] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? [];
  if (!isKeyName(name)) throw new NoteKeyError("it is not of the form NAME+ID+BASE64");
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) throw new NoteKeyError("its last part is not base64");
  if (bytes.length !== ed25519.length + keyBytes || bytes[0] !== ed25519[0])
    throw new NoteKeyError("it is not an Ed25519 key");
  return { name, id, raw: bytes.subarray(ed25519.length) };
}

/** Throws NoteKeyError unless the key has this id, which shows a key or a name that was mistyped. */
function matching(key: VerifierKey, id: string): VerifierKey {
  if (key.id === id) return key;
  throw new NoteKeyError(`its id is ${id}, but that of this name and key is ${key.id}`);
}

function privateKeyOf(seed: Buffer): KeyObject {
  return createPrivateKey({ key: Buffer.concat([der.private, seed]), format: "der", type: "pkcs8" });
}

/** The public part of a public or private key under a name. */
function publicPart(name: string, key: KeyObject): VerifierKey {
  const publicKey = key.type === "private" ? createPublicKey(key) : key;
  const named = Buffer.concat([Buffer.from(`${name}\n`), ed25519, rawOf(publicKey)]);
  return { name, id: hash("sha256", named, "hex").slice(0, 8), publicKey };
}

function rawOf(publicKey: KeyObject): Buffer {
  return publicKey.export({ format: "der", type: "spki" }).subarray(der.public.length);
}
