import { sign, verify } from "node:crypto";
import { cosignatureTime, cosignedMessage, signedIn } from "../../format/note.ts";
import type { KeyKind, VerifierKey } from "../../format/note-keys.ts";
import { publicKeyOf, type SigningKey } from "./note-keys.ts";

// Cosignatures of checkpoints as c2sp.org/tlog-cosignature has them: a time, in eight bytes, and a signature over it
// and the text.

/** What was found of a signature. `unchecked`: this platform knows no such keys. */
export type Finding = "right" | "wrong" | "unchecked";

/** What a key makes of a text. `time` is in seconds since 1970; notes that are signed as they are have none. */
export function signatureOf(key: SigningKey, text: string, time = Math.floor(Date.now() / 1000)): Buffer {
  if (key.kind === "ed25519") return sign(null, Buffer.from(text), key.privateKey);
  const message = cosignedMessage(key, text, BigInt(time));
  if (!message) throw new RangeError("A cosignature is about a checkpoint without extension lines.");
  const seconds = Buffer.alloc(8);
  seconds.writeBigUInt64BE(BigInt(time));
  return Buffer.concat([seconds, sign(null, message, key.privateKey)]);
}

/** Checks what a key made of a text. */
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
