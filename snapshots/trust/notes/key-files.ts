import { lstat, readFile, writeFile } from "node:fs/promises";
import { Fault } from "../../../schemas/errors.ts";
import { kindName, NoteKeyError, type VerifierKey } from "../../format/note-keys.ts";
import { hasCode } from "../../store/errors.ts";
import {
  newSigningKey,
  parseSigningKey,
  parseVerifierKey,
  type SigningKey,
  verifierText,
} from "./note-keys.ts";

/** A file of keys cannot be used. The message names the file, the line and what is wrong, and repeats nothing of it. */
export const keyFileError = (message: string, options?: ErrorOptions) =>
  new Fault("KEY_FILE", message, options);

/** Reads a file with one public key a line. Empty lines, and lines that begin with #, are skipped. */
export async function readTrustedKeys(path: string): Promise<VerifierKey[]> {
  const keys = (await linesOf(path)).map(({ text, line }) =>
    parsed(path, line, () => parseVerifierKey(text)),
  );
  if (keys.length > 0) return keys;
  throw keyFileError(`${path} holds no key; a line of it is the content of a .pub file`);
}

/** What a publisher signs with. */
export interface SigningKeys {
  key: SigningKey;
  /** A key of ML-DSA-44 of the same name, with which it cosigns its own checkpoints. */
  cosigner?: SigningKey;
}

/** Reads the file of a private key of Ed25519, and maybe one of ML-DSA-44 in a second line. */
export async function readSigningKeys(path: string): Promise<SigningKeys> {
  const lines = await linesOf(path);
  if (lines.length === 0) throw keyFileError(`${path} holds no key`);
  const keys: { ed25519?: SigningKey; "ml-dsa-44"?: SigningKey } = {};
  for (const { text, line } of lines) {
    const key = parsed(path, line, () => parseSigningKey(text));
    const wrong = (reason: string) => keyFileError(`${path}, line ${line}: ${reason}`);
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
  const text = parsedKey(path, () => newSigningKey(name, undefined, kind));
  const key = parseSigningKey(text);
  // Both are looked for first: half a pair beside the half of another would mislead.
  for (const each of [path, publicPath]) if (await exists(each)) throw taken(each);
  await create(path, `${text}\n`, 0o600);
  await create(publicPath, `${verifierText(key)}\n`, 0o644);
  return key;
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
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

/** The error of a file that cannot be read or written. */
export function unusable(path: string, done: string, error: unknown): Fault {
  return keyFileError(`${path} cannot be ${done}: ${error instanceof Error ? error.message : error}`, {
    cause: error,
  });
}

/** The key that `parse` makes of a line. Throws KEY_FILE, which names file and line, for its NoteKeyError. */
export function parsed<Key>(path: string, line: number, parse: () => Key): Key {
  return parsedKey(`${path}, line ${line}`, parse);
}

function parsedKey<Key>(place: string, parse: () => Key): Key {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof NoteKeyError)) throw error;
    throw keyFileError(`${place}: ${error.message}`, { cause: error });
  }
}
