import { randomBytes, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import { Fault } from "../../schemas/errors.ts";
import type { KeyPlan } from "../../schemas/plans.ts";
import {
  type KeyRecord,
  KeyRecord as KeyRecordSchema,
  KeyRevocation,
  keyPattern,
} from "../../schemas/store/keys.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { isKeyRevocation, layout, sha256 } from "../store/layout.ts";
import { seal, unseal } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const secretDigits = 32;
const checkDigits = 6;

/** `randomDigit` returns uniformly distributed integers from 0 to 61. */
export function generateKey(randomDigit = () => randomInt(alphabet.length)): string {
  const secret = Array.from({ length: secretDigits }, () => alphabet[randomDigit()]).join("");
  const head = `prs_live_${secret}`;
  return head + checksum(head);
}

/** The checksum catches typing errors and truncation. */
export function isWellFormedKey(text: string): boolean {
  return keyPattern.test(text) && checksum(text.slice(0, -checkDigits)) === text.slice(-checkDigits);
}

function checksum(head: string): string {
  let rest = crc32(head);
  let digits = "";
  for (let index = 0; index < checkDigits; index += 1) {
    digits = alphabet[rest % alphabet.length] + digits;
    rest = Math.floor(rest / alphabet.length);
  }
  return digits;
}

export interface KeyRequest {
  plan: KeyPlan;
  owner: string;
  /** Requests per UTC day; the plan's number by default. */
  quota?: number | undefined;
  expiresAt?: Date | undefined;
}

/**
 * Only the result holds the key itself; the store keeps its SHA-256. Throws CorruptObjectError for an invalid request.
 */
export async function issueKey(
  storage: Storage,
  { plan, owner, quota, expiresAt }: KeyRequest,
  now: Date,
  key = generateKey(),
): Promise<{ key: string; record: KeyRecord }> {
  const id = randomBytes(8).toString("hex");
  const sealed = seal({
    id,
    owner,
    plan,
    secretHash: sha256(key),
    ...(quota !== undefined && { quota }),
    issuedAt: now.toISOString(),
    ...(expiresAt && { expiresAt: expiresAt.toISOString() }),
  });
  // Parsed before it is stored, as readers will: an invalid owner or quota never reaches the store.
  const record = unseal(layout.key(id), sealed, KeyRecordSchema);
  if (!(await storage.putIfAbsent(layout.key(id), sealed)))
    throw new Error(`key id ${id} is taken; try again`);
  return { key, record };
}

/** Records by time of issue, and the earliest revocation by key id. */
export async function readKeys(storage: Storage): Promise<{
  records: KeyRecord[];
  revocations: Map<string, KeyRevocation>;
  damaged: CorruptObjectError[];
}> {
  const records: KeyRecord[] = [];
  const revocations = new Map<string, KeyRevocation>();
  const damaged: CorruptObjectError[] = [];
  for await (const { key } of storage.list(layout.key.prefix)) {
    try {
      const entry = await readKeyObject(storage, key);
      if (entry?.record) records.push(entry.record);
      if (entry?.revocation) {
        const { id } = entry.revocation;
        revocations.set(id, earlierOf(entry.revocation, revocations.get(id)));
      }
    } catch (error) {
      if (!(error instanceof CorruptObjectError)) throw error;
      damaged.push(error);
    }
  }
  records.sort((a, b) => (a.issuedAt < b.issuedAt ? -1 : 1));
  return { records, revocations, damaged };
}

/** The name of an object under keys/ tells whether it is a record or a revocation. Undefined when it is gone. */
export async function readKeyObject(
  storage: Storage,
  objectKey: string,
): Promise<{ record?: KeyRecord; revocation?: KeyRevocation } | undefined> {
  const bytes = await storage.get(objectKey, { maxBytes: layout.key.maxBytes });
  if (!bytes) return undefined;
  const entry = isKeyRevocation(objectKey)
    ? { revocation: unseal(objectKey, bytes, KeyRevocation) }
    : { record: unseal(objectKey, bytes, KeyRecordSchema) };
  const id = entry.record?.id ?? entry.revocation?.id;
  if (id !== keyIdOf(objectKey)) throw new CorruptObjectError(objectKey, "it holds another key's record");
  return entry;
}

/** Takes any object key under keys/. */
export function keyIdOf(objectKey: string): string {
  return objectKey.slice(layout.key.prefix.length).split(".")[0]!;
}

/**
 * Revokes a key at a time, now or in the future. Returns the revocation that holds, which is an earlier one if there is
 * one; undefined when there is no such key.
 */
export async function revokeKey(storage: Storage, id: string, at: Date): Promise<KeyRevocation | undefined> {
  if (!(await storage.get(layout.key(id)))) return undefined;
  const sealed = seal({ id, revokedAt: at.toISOString() });
  const mine = unseal(layout.keyRevocation(id), sealed, KeyRevocation);
  // Nothing replaces a revocation: of two concurrent ones, the later could overwrite the earlier.
  if (await storage.putIfAbsent(layout.keyRevocation(id), sealed)) return mine;
  const earliest = earlierOf(mine, await earliestRevocation(storage, id));
  if (earliest === mine) await storage.putIfAbsent(layout.keyRevocation(id, at.getTime()), sealed);
  return earliest;
}

/**
 * Issues a key with the owner, plan, quota and expiry of another one, which ends `graceMilliseconds` later, or earlier
 * if it was to. Undefined when there is no such key. If the store fails in between, nobody has seen the new key, so it
 * opens nothing, and the old one is unchanged: rotate again.
 */
export async function rotateKey(
  storage: Storage,
  id: string,
  graceMilliseconds: number,
  now: Date,
): Promise<{ key: string; record: KeyRecord; revocation: KeyRevocation } | undefined> {
  const old = (await readKeyObject(storage, layout.key(id)))?.record;
  if (!old) return undefined;
  const { owner, plan, quota } = old;
  const expiresAt = old.expiresAt === undefined ? undefined : new Date(old.expiresAt);
  const ended = [old.expiresAt, (await earliestRevocation(storage, id))?.revokedAt].find(
    (end) => end !== undefined && Date.parse(end) <= now.getTime(),
  );
  if (ended) throw new Fault("KEY_ENDED", `key ${id} ended at ${ended}; issue a new one`);
  const issued = await issueKey(storage, { owner, plan, quota, expiresAt }, now);
  const revocation = await revokeKey(storage, id, new Date(now.getTime() + graceMilliseconds));
  return { ...issued, revocation: revocation! };
}

async function earliestRevocation(storage: Storage, id: string): Promise<KeyRevocation | undefined> {
  let earliest: KeyRevocation | undefined;
  for await (const { key } of storage.list(`${layout.key.prefix}${id}.`)) {
    const found = isKeyRevocation(key) ? (await readKeyObject(storage, key))?.revocation : undefined;
    if (found) earliest = earlierOf(found, earliest);
  }
  return earliest;
}

function earlierOf(one: KeyRevocation, other: KeyRevocation | undefined): KeyRevocation {
  return other && other.revokedAt <= one.revokedAt ? other : one;
}
