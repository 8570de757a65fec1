import { createPrivateKey, createPublicKey, type KeyObject, randomBytes } from "node:crypto";
import { toBase64 } from "../../format/bytes.ts";
import {
  identified,
  type KeyKind,
  keyIn,
  kindName,
  matching,
  NoteKeyError,
  typed,
  type VerifierKey,
} from "../../format/note-keys.ts";
import { sha256 } from "../../format/sha256.ts";

/** What DER puts before a seed of 32 bytes, and before the public key itself (RFC 8410, RFC 9881). */
const der = {
  ed25519: { private: "302e020100300506032b657004220420", public: "302a300506032b6570032100" },
  "ml-dsa-44": {
    private: "3034020100300b060960864801650304031104228020",
    public: "30820532300b06096086480165030403110382052100",
  },
} as const;

/** A key that signs. */
export interface SigningKey extends VerifierKey {
  readonly privateKey: KeyObject;
}

const seedBytes = 32;
const privatePrefix = "PRIVATE+KEY+";

/** The text of a new private key: `PRIVATE+KEY+<name>+<id>+<base64>`. `seed` is 32 random bytes. */
export function newSigningKey(
  name: string,
  seed = randomBytes(seedBytes),
  kind: KeyKind = "ed25519",
): string {
  const { id } = signingKeyOf(name, kind, seed);
  return `${privatePrefix}${name}+${id}+${encodedKey(kind, seed)}`;
}

/** The text of a public key: `<name>+<id>+<base64>`. */
export function verifierText({ name, id, kind, raw }: VerifierKey): string {
  return `${name}+${id}+${encodedKey(kind, raw)}`;
}

/** Reads the text of a private key. Throws NoteKeyError, which never repeats the text. */
export function parseSigningKey(text: string): SigningKey {
  if (!text.startsWith(privatePrefix)) throw new NoteKeyError(`it does not begin with ${privatePrefix}`);
  const { name, id, kind, raw: seed } = keyIn(text.slice(privatePrefix.length), seedBytes);
  const key = signingKeyOf(name, kind, seed);
  return matching({ ...key, id }, key.id);
}

/** Reads the text of a public key. Throws NoteKeyError, which never repeats the text. */
export function parseVerifierKey(text: string): VerifierKey {
  // Repeating it would put the secret into logs.
  if (text.startsWith(privatePrefix))
    throw new NoteKeyError("it is a private key; the public one is in the file whose name ends in .pub");
  const key = keyIn(text);
  return matching(key, idOf(key));
}

/** What this platform checks such a key's signatures with; undefined where it cannot: Node before 24.6, ML-DSA-44. */
export function publicKeyOf(key: VerifierKey): KeyObject | undefined {
  const { kind, raw } = key;
  const make = () => createPublicKey({ key: derOf(kind, "public", raw), format: "der", type: "spki" });
  if (!publicKeys.has(key)) publicKeys.set(key, supported(kind, make));
  return publicKeys.get(key);
}

/** Made once, where a key first checks a signature. */
const publicKeys = new WeakMap<VerifierKey, KeyObject | undefined>();

function signingKeyOf(name: string, kind: KeyKind, seed: Uint8Array): SigningKey {
  const parts = { key: derOf(kind, "private", seed), format: "der", type: "pkcs8" } as const;
  const privateKey = supported(kind, () => createPrivateKey(parts));
  const publicKey = privateKey && supported(kind, () => createPublicKey(privateKey));
  if (!publicKey)
    throw new NoteKeyError(`${kindName(kind)} keys sign with Node 24 and later; this is ${process.version}`);
  const start = der[algorithmOf(kind)].public.length / 2;
  const raw = Uint8Array.from(publicKey.export({ format: "der", type: "spki" }).subarray(start));
  return { name, id: idOf({ name, kind, raw }), kind, raw, privateKey };
}

const idOf = (key: Omit<VerifierKey, "id">) => sha256(identified(key)).slice(0, 8);

/**
 * A key that this platform can use; undefined where it knows no such keys, or takes them and can do nothing with them.
 */
function supported(kind: KeyKind, make: () => KeyObject): KeyObject | undefined {
  try {
    const key = make();
    return key.asymmetricKeyType === algorithmOf(kind) ? key : undefined;
  } catch {
    return undefined;
  }
}

const algorithmOf = (kind: KeyKind) => (kind === "ml-dsa-44" ? kind : "ed25519");

const derOf = (kind: KeyKind, side: "private" | "public", bytes: Uint8Array) =>
  Buffer.concat([Buffer.from(der[algorithmOf(kind)][side], "hex"), bytes]);

const encodedKey = (kind: KeyKind, bytes: Uint8Array) => toBase64(typed(kind, bytes));
