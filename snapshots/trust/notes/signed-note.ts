import { sign, verify } from "node:crypto";
import type { Checked, Commit } from "../../../schemas/store/stored-objects.ts";
import {
  checkpointIn,
  cosignatureTime,
  cosignedMessage,
  type KeyKind,
  maxNoteBytes,
  maxSignatures,
  NoteError,
  parseNote,
  signedIn,
  type VerifierKey,
} from "../../format/note.ts";
import { leafHash, type TreeHead } from "../../format/tree.ts";
import { CorruptObjectError, unless, unlessSync } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { entryOf } from "../../store/log/tiles.ts";
import { type Signature, seal } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { publicKeyOf, type SigningKey, type SigningKeys } from "./note-keys.ts";

/** Checks no signature. Undefined where there is no object, or one that is too large for a note. */
export async function readNote(storage: Storage, key: string): Promise<string | undefined> {
  const bytes = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
  return bytes?.toString();
}

/** `text` ends with a line feed. With an Ed25519 key, the same text gives the same note. */
export function signNote(text: string, key: SigningKey): string {
  return `${text}\n${signatureLine(key, text)}\n`;
}

/**
 * A line without its line feed. `time` is that of a cosignature, in seconds since 1970; a signature of Ed25519 has
 * none.
 */
export function signatureLine(key: SigningKey, text: string, time = Math.floor(Date.now() / 1000)): string {
  const signed = (parts: readonly Buffer[]) =>
    `— ${key.name} ${Buffer.concat([Buffer.from(key.id, "hex"), ...parts]).toString("base64")}`;
  if (key.kind === "ed25519") return signed([sign(null, Buffer.from(text), key.privateKey)]);
  const message = cosignedMessage(key, text, BigInt(time));
  if (!message) throw new RangeError("A cosignature is about a checkpoint without extension lines.");
  const seconds = Buffer.alloc(8);
  seconds.writeBigUInt64BE(BigInt(time));
  return signed([seconds, sign(null, message, key.privateKey)]);
}

/**
 * Checks the signatures of the keys given, and ignores those of others. Those in `unchecked`, which this platform
 * cannot check, count for nothing. The resulting note has the checked signatures alone: anybody can add lines of keys
 * that nobody knows. Throws NoteError when the note is malformed, when one of these keys' signatures is wrong, or when
 * there is none.
 */
export function openNote(note: string, keys: readonly VerifierKey[]) {
  const { text, signatures } = parseNote(note);
  const signers: VerifierKey[] = [];
  const unchecked: VerifierKey[] = [];
  const lines: string[] = [];
  for (const { name, id, signature, line } of signatures) {
    const key = keys.find((each) => each.name === name && each.id === id);
    if (!key || signers.includes(key)) continue;
    const finding = checkSignature(key, text, signature);
    if (finding === "wrong") throw new NoteError(`the signature of ${name}+${id} is wrong`);
    if (finding === "unchecked") unchecked.push(key);
    else {
      signers.push(key);
      lines.push(`${line}\n`);
    }
  }
  if (signers.length > 0) return { text, signers, unchecked, note: `${text}\n${lines.join("")}` };
  const [{ name, id } = { name: "", id: "" }] = unchecked.length > 0 ? unchecked : signatures;
  const reason = unchecked.length > 0 ? `${name}+${id}, which this platform cannot check` : `${name}+${id}`;
  throw new NoteError(`no trusted key signed it, but ${reason}`);
}

/**
 * Adds the signatures of the stored note, if that has the same text. Each key's comes once, those of `keys` first and
 * without wrong ones. Those of others are kept as far as there is room: whoever knows them may count them.
 */
export function mergeNotes(note: string, stored: string | undefined, keys: readonly VerifierKey[]): string {
  const { text, signatures } = parseNote(note);
  const before = unlessSync(NoteError, () => parseNote(stored ?? ""));
  const kept = before?.text === text ? before.signatures : [];
  const [known, others] = [new Map<string, string>(), new Map<string, string>()];
  for (const { name, id, signature, line } of [...kept, ...signatures]) {
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

// Cosignatures of checkpoints as c2sp.org/tlog-cosignature has them: a time, in eight bytes, and a signature over it
// and the text.

/** `unchecked`: this platform knows no such keys. */
type Finding = "right" | "wrong" | "unchecked";

export function checkSignature(key: VerifierKey, text: string, signature: Uint8Array<ArrayBuffer>): Finding {
  const publicKey = publicKeyOf(key);
  if (!publicKey) return "unchecked";
  const signed = signedIn(key, text, signature);
  return signed && verify(null, signed.message, publicKey, signed.signature) ? "right" : "wrong";
}

/** When a cosignature was made, in seconds since 1970; undefined for other signatures. 0 says nothing of the time. */
export function timeOf(kind: KeyKind, signature: Uint8Array): number | undefined {
  const time = kind === "ed25519" ? undefined : cosignatureTime(signature);
  return time === undefined ? undefined : Number(time);
}

/** What a checkpoint of c2sp.org/tlog-checkpoint says: the size and the head of a log's tree. */
interface Checkpoint extends TreeHead {
  origin: string;
}

export interface NotedCheckpoint extends Checkpoint {
  note: string;
}

/** The text of a checkpoint, without extension lines. */
export function checkpointText({ origin, size, head }: Checkpoint): string {
  return `${origin}\n${size}\n${head.toString("base64")}\n`;
}

/** A checkpoint, signed, and cosigned where there is a key for that. The origin is the keys' name. */
export function signCheckpoint({ key, cosigner }: SigningKeys, { size, head }: TreeHead): string {
  if (!key) throw new RangeError("Without a key there is no checkpoint.");
  const text = checkpointText({ origin: key.name, size, head });
  return signNote(text, key) + (cosigner ? `${signatureLine(cosigner, text)}\n` : "");
}

/** Checks no signature. Throws NoteError when the checkpoint is malformed. */
export function parseCheckpoint(note: string): Checkpoint {
  const { text } = parseNote(note);
  const checkpoint = checkpointIn(text);
  if (!checkpoint || checkpoint.extended || checkpoint.size < 1 || checkpoint.size >= 1e10)
    throw new NoteError("it is not a checkpoint");
  return { origin: checkpoint.origin, size: checkpoint.size, head: Buffer.from(checkpoint.head) };
}

// The notes that records of a store carry. Their second line is no number, so that nobody takes one for a checkpoint.

export function entryText(origin: string, commit: Commit): string {
  return `${origin}\nentry ${commit.entry.commit}\n${leafHash(entryOf(commit)).toString("base64")}\n`;
}

export function signEntry(key: SigningKey, commit: Commit): string {
  return signNote(entryText(key.name, commit), key);
}

/** The second line of the note about another record: which one it is, by its key in the store. */
export function subjectOf(key: string, record: object): string {
  const { checked, exportRecord, exportedChanges } = layout;
  if (key === checked) return `checked ${(record as Checked).checkedAt}`;
  if (exportRecord.has(key)) return `export ${exportRecord.nameIn(key)}`;
  // Otherwise it is the plan or a part of a run.
  return exportedChanges.has(key) ? `changes ${exportedChanges.nameIn(key)}` : `run ${key}`;
}

export function recordText(origin: string, subject: string, digest: string): string {
  return `${origin}\n${subject}\n${Buffer.from(digest, "hex").toString("base64")}\n`;
}

export function signRecord(key: SigningKey | undefined, subject: string): (digest: string) => Signature {
  return (digest) => (key ? { note: signNote(recordText(key.name, subject, digest), key) } : {});
}

export function sealSigned(signer: SigningKey | undefined, key: string, record: object): Buffer {
  return seal(record, signRecord(signer, subjectOf(key, record)));
}
