import { createPrivateKey, createPublicKey, type KeyObject, randomBytes } from "node:crypto";
import { lstat, readFile, writeFile } from "node:fs/promises";
import { Fault } from "../../../schemas/errors.ts";
import { toBase64 } from "../../format/bytes.ts";
import {
  identified,
  type KeyKind,
  keyIn,
  kindName,
  matching,
  NoteKeyError,
  type Policy,
  policyIn,
  policyOf,
  typed,
  type VerifierKey,
} from "../../format/note.ts";
import { sha256 } from "../../format/tree.ts";
import { hasCode, messageOf, unlessSync } from "../../store/errors.ts";

/** What DER puts before a seed of 32 bytes, and before the public key itself (RFC 8410, RFC 9881). */
const der = {
  ed25519: { private: "302e020100300506032b657004220420", public: "302a300506032b6570032100" },
  "ml-dsa-44": {
    private: "3034020100300b060960864801650304031104228020",
    public: "30820532300b06096086480165030403110382052100",
  },
} as const;

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

/** Throws NoteKeyError, which never repeats the text. */
export function parseSigningKey(text: string): SigningKey {
  if (!text.startsWith(privatePrefix)) throw new NoteKeyError(`it does not begin with ${privatePrefix}`);
  const { name, id, kind, raw: seed } = keyIn(text.slice(privatePrefix.length), seedBytes);
  const key = signingKeyOf(name, kind, seed);
  return matching({ ...key, id }, key.id);
}

/** Throws NoteKeyError, which never repeats the text. */
export function parseVerifierKey(text: string): VerifierKey {
  // Repeating it would put the secret into logs.
  if (text.startsWith(privatePrefix))
    throw new NoteKeyError("it is a private key; the public one is in the file whose name ends in .pub");
  const key = keyIn(text);
  return matching(key, idOf(key));
}

/** Undefined where this platform cannot check signatures of the key: ML-DSA-44 in Node before 24.6. */
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

/** Undefined where this platform knows no such keys, or takes them and can do nothing with them. */
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

/** A file of keys cannot be used. The message names the file, the line and what is wrong, and repeats nothing of it. */
export const keyFileError = (message: string, options?: ErrorOptions) =>
  new Fault("KEY_FILE", message, options);

/** Reads a file with one public key a line. Empty lines, and lines that begin with #, are skipped. */
export async function readTrustedKeys(path: string): Promise<VerifierKey[]> {
  const keys = (await linesOf(path)).map(({ text, line }) =>
    parsed(`${path}, line ${line}`, () => parseVerifierKey(text)),
  );
  if (keys.length > 0) return keys;
  throw keyFileError(`${path} holds no key; a line of it is the content of a .pub file`);
}

export interface SigningKeys {
  key?: SigningKey | undefined;
  /** A key of ML-DSA-44 of the same name, which cosigns checkpoints. */
  cosigner?: SigningKey | undefined;
}

/** Reads the file of a private key of Ed25519, and maybe one of ML-DSA-44 in a second line. */
export async function readSigningKeys(path: string): Promise<SigningKeys & { key: SigningKey }> {
  const lines = await linesOf(path);
  if (lines.length === 0) throw keyFileError(`${path} holds no key`);
  const keys: { ed25519?: SigningKey; "ml-dsa-44"?: SigningKey } = {};
  for (const { text, line } of lines) {
    const place = `${path}, line ${line}`;
    const key = parsed(place, () => parseSigningKey(text));
    const wrong = (reason: string) => keyFileError(`${place}: ${reason}`);
    if (key.kind === "cosignature-ed25519") throw wrong("it is the key of a witness");
    if (keys[key.kind]) throw wrong(`a run signs with one key of ${kindName(key.kind)}`);
    keys[key.kind] = key;
  }
  const { ed25519: key, "ml-dsa-44": cosigner } = keys;
  if (!key) throw keyFileError(`${path} holds no Ed25519 key; that of ML-DSA-44 goes into a line below one`);
  if (cosigner && cosigner.name !== key.name)
    throw keyFileError(`${path}: both keys of a log have its name, and not ${key.name} and ${cosigner.name}`);
  return { key, ...(cosigner && { cosigner }) };
}

/** Makes a key pair, in the file and in another one named .pub. Replaces neither. */
export async function writeSigningKey(
  path: string,
  name: string,
  kind: "ed25519" | "ml-dsa-44" = "ed25519",
): Promise<SigningKey> {
  const publicPath = `${path}.pub`;
  const text = parsed(path, () => newSigningKey(name, undefined, kind));
  const key = parseSigningKey(text);
  // Both are looked for first: half a pair beside the half of another would mislead.
  for (const each of [path, publicPath]) if (await lstat(each).catch(() => undefined)) throw taken(each);
  await create(path, `${text}\n`, 0o600);
  await create(publicPath, `${verifierText(key)}\n`, 0o644);
  return key;
}

async function create(path: string, text: string, mode: number): Promise<void> {
  try {
    await writeFile(path, text, { flag: "wx", mode });
  } catch (error) {
    throw hasCode(error, "EEXIST") ? taken(path) : unusable(path, "written", error);
  }
}

function taken(path: string): Fault {
  return keyFileError(`${path} exists, and keys are never replaced; give another name, or move it away`);
}

async function linesOf(path: string): Promise<{ text: string; line: number }[]> {
  const content = await readFile(path, "utf8").catch((error) => {
    throw unusable(path, "read", error);
  });
  const lines = content.split("\n").map((text, index) => ({ text: text.trim(), line: index + 1 }));
  return lines.filter(({ text }) => text !== "" && !text.startsWith("#"));
}

export function unusable(path: string, done: string, error: unknown): Fault {
  return keyFileError(`${path} cannot be ${done}: ${messageOf(error)}`, { cause: error });
}

/** Turns a NoteKeyError of `parse` into KEY_FILE, which names the place of the text. */
export function parsed<Key>(place: string, parse: () => Key): Key {
  return unlessSync(NoteKeyError, parse, (cause) => {
    throw keyFileError(`${place}: ${cause.message}`, { cause });
  });
}

const maxPolicyBytes = 1024 * 1024;

export async function readPolicy(path: string): Promise<Policy> {
  const bytes = await readFile(path).catch((error) => {
    throw unusable(path, "read", error);
  });
  return parsePolicy(bytes, path);
}

/** Whose checkpoints a reader believes, by a file of a policy or of public keys; undefined when neither is named. */
export async function believedPolicy({
  policy: file,
  keys,
}: Partial<Record<"policy" | "keys", string | undefined>>): Promise<Policy | undefined> {
  if (!file) return keys ? policyOf(await readTrustedKeys(keys)) : undefined;
  if (keys)
    throw keyFileError(
      "a policy (TRUST_POLICY) names the keys too, so neither --trusted-key nor TRUSTED_KEYS goes with it",
    );
  const policy = await readPolicy(file);
  if (policy.logs.length > 0) return policy;
  throw keyFileError(`${file} names no log; "log VKEY" does, where VKEY is the content of a .pub file`);
}

/** `path` is how errors name the file. */
export function parsePolicy(bytes: Uint8Array, path: string): Policy {
  if (bytes.length > maxPolicyBytes)
    throw keyFileError(`${path} is no policy: it has more than ${maxPolicyBytes} bytes`);
  const policy = policyIn(bytes, {
    keyIn: (text, line) => parsed(`${path}, line ${line}`, () => parseVerifierKey(text)),
    wrong: (line, reason) => keyFileError(`${path}, line ${line}: ${reason}`),
  });
  if (policy) return policy;
  throw keyFileError(`${path} has no quorum line; "quorum none" asks for no witness`);
}
