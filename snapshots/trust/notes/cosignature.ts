import { sign, verify } from "node:crypto";
import type { KeyKind, SigningKey, VerifierKey } from "./note-keys.ts";

// Cosignatures of checkpoints as c2sp.org/tlog-cosignature has them: a time, in eight bytes, and a signature over it
// and the text.

const timeBytes = 8;
const maxTime = 2n ** 63n - 1n;

/** What was found of a signature. `unchecked`: this platform knows no such keys. */
export type Finding = "right" | "wrong" | "unchecked";

/** What a key makes of a text. `time` is in seconds since 1970; notes that are signed as they are have none. */
export function signatureOf(key: SigningKey, text: string, time = Math.floor(Date.now() / 1000)): Buffer {
  if (key.kind === "ed25519") return sign(null, Buffer.from(text), key.privateKey);
  const message = messageOf(key, text, BigInt(time));
  if (!message) throw new RangeError("A cosignature is about a checkpoint without extension lines.");
  return Buffer.concat([bigEndian(BigInt(time)), sign(null, message, key.privateKey)]);
}

/** Checks what a key made of a text. */
export function checkSignature(key: VerifierKey, text: string, signature: Buffer): Finding {
  if (!key.publicKey) return "unchecked";
  if (key.kind === "ed25519") return found(verify(null, Buffer.from(text), key.publicKey, signature));
  const time = bigTime(signature);
  const message = time === undefined ? undefined : messageOf(key, text, time);
  return found(message !== undefined && verify(null, message, key.publicKey, signature.subarray(timeBytes)));
}

/** When a cosignature was made, in seconds since 1970; undefined for other signatures. 0 says nothing of the time. */
export function timeOf(kind: KeyKind, signature: Buffer): number | undefined {
  const time = kind === "ed25519" ? undefined : bigTime(signature);
  return time === undefined ? undefined : Number(time);
}

const found = (right: boolean): Finding => (right ? "right" : "wrong");

function bigTime(signature: Buffer): bigint | undefined {
  const time = signature.length > timeBytes ? signature.readBigUInt64BE() : maxTime + 1n;
  return time <= maxTime ? time : undefined;
}

/** What a cosigner signs; undefined when the text is no checkpoint. */
function messageOf(key: VerifierKey, text: string, time: bigint): Buffer | undefined {
  const [origin = "", size = "", root = "", end] = text.split("\n");
  const head = Buffer.from(root, "base64");
  if (origin === "" || !/^(0|[1-9]\d{0,15})$/.test(size) || head.length !== 32 || end === undefined)
    return undefined;
  if (key.kind !== "ml-dsa-44") return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`);
  const long = [key.name, origin].some((name) => Buffer.byteLength(name) > 255);
  // Extension lines are not signed: who read them would believe what nobody vouches for.
  if (long || text !== `${origin}\n${size}\n${head.toString("base64")}\n`) return undefined;
  return Buffer.concat([
    Buffer.from("subtree/v1\n\0"),
    afterLength(key.name),
    bigEndian(time),
    afterLength(origin),
    bigEndian(0n),
    bigEndian(BigInt(size)),
    head,
  ]);
}

function afterLength(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.of(bytes.length), bytes]);
}

function bigEndian(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}
