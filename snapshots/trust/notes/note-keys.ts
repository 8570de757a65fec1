import { createPrivateKey, createPublicKey, hash, type KeyObject, randomBytes } from "node:crypto";

/** A key's text is not as c2sp.org/signed-note and its first implementation, Go's note, write it. */
export class NoteKeyError extends Error {
  override readonly name = "NoteKeyError";
}

/**
 * How keys sign: a note as it is, or a checkpoint together with the time at which it was seen, as
 * c2sp.org/tlog-cosignature has it. DER puts `private` before a seed of 32 bytes and `public` before the key itself
 * (RFC 8410, RFC 9881).
 */
const kinds = {
  ed25519: {
    type: 0x01,
    called: "Ed25519",
    keyBytes: 32,
    algorithm: "ed25519",
    private: "302e020100300506032b657004220420",
    public: "302a300506032b6570032100",
  },
  "cosignature-ed25519": {
    type: 0x04,
    called: "Ed25519 cosignature",
    keyBytes: 32,
    algorithm: "ed25519",
    private: "302e020100300506032b657004220420",
    public: "302a300506032b6570032100",
  },
  "ml-dsa-44": {
    type: 0x06,
    called: "ML-DSA-44",
    keyBytes: 1312,
    algorithm: "ml-dsa-44",
    private: "3034020100300b060960864801650304031104228020",
    public: "30820532300b06096086480165030403110382052100",
  },
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
  readonly raw: Buffer;
  /** Undefined where this platform cannot check with such a key: Node before 24.6 with ML-DSA-44. */
  readonly publicKey: KeyObject | undefined;
}

/** A key that signs. */
export interface SigningKey extends VerifierKey {
  readonly privateKey: KeyObject;
}

const seedBytes = 32;
const privatePrefix = "PRIVATE+KEY+";

/** Whether a key may be called so: without spaces, plus signs and what a terminal would not show. */
export function isKeyName(name: string): boolean {
  return /^[^\s\p{C}+]{1,200}$/u.test(name);
}

/** What keys of a kind are called in messages, such as "Ed25519". */
export function kindName(kind: KeyKind): string {
  return kinds[kind].called;
}

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
  const { name, id, kind, bytes } = partsOf(text.slice(privatePrefix.length));
  return matching(signingKeyOf(name, kind, bytesOf(kind, bytes, seedBytes)), id);
}

/** Reads the text of a public key. Throws NoteKeyError, which never repeats the text. */
export function parseVerifierKey(text: string): VerifierKey {
  // Repeating it would put the secret into logs.
  if (text.startsWith(privatePrefix))
    throw new NoteKeyError("it is a private key; the public one is in the file whose name ends in .pub");
  const { name, id, kind, bytes } = partsOf(text);
  const raw = bytesOf(kind, bytes, kinds[kind].keyBytes);
  return matching(verifierKeyOf(name, kind, raw), id);
}

function partsOf(text: string): { name: string; id: string; kind: KeyKind; bytes: Buffer } {
  const [, name = "", id = "", encoded = ""] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? [];
  if (!isKeyName(name)) throw new NoteKeyError("it is not of the form NAME+ID+BASE64");
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) throw new NoteKeyError("its last part is not base64");
  const kind = (Object.keys(kinds) as KeyKind[]).find((each) => kinds[each].type === bytes[0]);
  if (!kind) throw new NoteKeyError("it is neither an Ed25519 nor an ML-DSA-44 key");
  return { name, id, kind, bytes: bytes.subarray(1) };
}

function bytesOf(kind: KeyKind, bytes: Buffer, length: number): Buffer {
  if (bytes.length === length) return bytes;
  throw new NoteKeyError(`it is not an ${kinds[kind].called} key: its last part has another length`);
}

/** Throws NoteKeyError unless the key has this id, which shows a key or a name that was mistyped. */
function matching<Key extends VerifierKey>(key: Key, id: string): Key {
  if (key.id === id) return key;
  throw new NoteKeyError(`its id is ${id}, but that of this name and key is ${key.id}`);
}

function signingKeyOf(name: string, kind: KeyKind, seed: Buffer): SigningKey {
  const parts = { key: derOf(kind, "private", seed), format: "der", type: "pkcs8" } as const;
  const privateKey = supported(kind, () => createPrivateKey(parts));
  const publicKey = privateKey && supported(kind, () => createPublicKey(privateKey));
  if (!publicKey)
    throw new NoteKeyError(
      `${kinds[kind].called} keys sign with Node 24 and later; this is ${process.version}`,
    );
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-kinds[kind].keyBytes);
  return { ...verifierKeyOf(name, kind, raw), privateKey };
}

function verifierKeyOf(name: string, kind: KeyKind, raw: Buffer): VerifierKey {
  const parts = { key: derOf(kind, "public", raw), format: "der", type: "spki" } as const;
  const publicKey = supported(kind, () => createPublicKey(parts));
  const named = Buffer.concat([Buffer.from(`${name}\n`), typed(kind, raw)]);
  return { name, id: hash("sha256", named, "hex").slice(0, 8), kind, raw, publicKey };
}

/**
 * A key that this platform can use; undefined where it knows no such keys, or takes them and can do nothing with them.
 */
function supported(kind: KeyKind, make: () => KeyObject): KeyObject | undefined {
  try {
    const key = make();
    return key.asymmetricKeyType === kinds[kind].algorithm ? key : undefined;
  } catch {
    return undefined;
  }
}

const derOf = (kind: KeyKind, side: "private" | "public", bytes: Buffer) =>
  Buffer.concat([Buffer.from(kinds[kind][side], "hex"), bytes]);

const typed = (kind: KeyKind, bytes: Buffer) => Buffer.concat([Buffer.of(kinds[kind].type), bytes]);

const encodedKey = (kind: KeyKind, bytes: Buffer) => typed(kind, bytes).toString("base64");
