import { randomBytes, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import type { z } from "zod";
import { Fault } from "../../schemas/errors.ts";
import type { KeyPlan } from "../../schemas/plans.ts";
import { KeyRecord, KeyRevocation, keyPattern } from "../../schemas/store/stored-objects.ts";
import { CorruptObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { isKeyRevocation, layout, sha256 } from "../store/layout.ts";
import { seal, unseal } from "../store/objects.ts";
import { type Storage, StorageError } from "../store/storage.ts";

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

/** Only the result holds the key itself; the store keeps its SHA-256. */
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
  const record = unseal(layout.key(id), sealed, KeyRecord);
  if (!(await storage.putIfAbsent(layout.key(id), sealed)))
    throw new Error(`key id ${id} is taken; try again`);
  return { key, record };
}

/** Records by time of issue, and the earliest revocation by key id. */
export async function readKeys(storage: Storage) {
  const records: KeyRecord[] = [];
  const revocations = new Map<string, KeyRevocation>();
  const damaged: CorruptObjectError[] = [];
  for await (const { key } of storage.list(layout.key.prefix)) {
    const read = () => readKeyObject(storage, key);
    const entry = await unless(CorruptObjectError, read, (error) => void damaged.push(error));
    if (entry && "revokedAt" in entry) revocations.set(entry.id, earlierOf(entry, revocations.get(entry.id)));
    else if (entry) records.push(entry);
  }
  records.sort((a, b) => (a.issuedAt < b.issuedAt ? -1 : 1));
  return { records, revocations, damaged };
}

/** Undefined when it is gone. The name of an object under keys/ tells whether it is a record or a revocation. */
async function readKeyObject(
  storage: Storage,
  objectKey: string,
): Promise<KeyRecord | KeyRevocation | undefined> {
  const bytes = await storage.get(objectKey, { maxBytes: layout.key.maxBytes });
  const schema: z.ZodType<KeyRecord | KeyRevocation> = isKeyRevocation(objectKey) ? KeyRevocation : KeyRecord;
  const content = bytes && unseal(objectKey, bytes, schema);
  if (!content || content.id === keyIdOf(objectKey)) return content;
  throw new CorruptObjectError(objectKey, "it holds another key's record");
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
  const old = await readKeyObject(storage, layout.key(id));
  if (!old || "revokedAt" in old) return undefined;
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
    const revocation = isKeyRevocation(key) && (await readKeyObject(storage, key));
    if (revocation && "revokedAt" in revocation) earliest = earlierOf(revocation, earliest);
  }
  return earliest;
}

function earlierOf(one: KeyRevocation, other: KeyRevocation | undefined): KeyRevocation {
  return other && other.revokedAt <= one.revokedAt ? other : one;
}

/** The state of a key that somebody presents. */
export type KeyVerdict =
  | { state: "active"; record: KeyRecord }
  | { state: "malformed" | "mistyped" | "unknown" | "expired" | "revoked" };

/** What the holder of a key that is not active is told. */
export const keyFaults: Record<Exclude<KeyVerdict["state"], "active">, string> = {
  malformed: "The API key is malformed: a key is prs_live_ and 38 letters and digits, copied whole.",
  mistyped: "The API key is mistyped: its checksum does not match. Copy it again, whole.",
  unknown: "The API key is unknown to this service.",
  expired: "The API key has expired.",
  revoked: "The API key has been revoked.",
};

interface KeyRingOptions {
  /** Epoch milliseconds. */
  now: () => number;
  damaged: (error: CorruptObjectError) => void;
  /** Called once with the key of a revocation's object that is gone from the store. The revocation still counts. */
  lost?: (objectKey: string) => void;
  /** The most such revocations that are kept, about 200 bytes each. */
  maxLost?: number;
}

/** A record, or when a revocation ends its key, in epoch milliseconds. */
type KeyObject = KeyRecord | number;

export type KeyRing = ReturnType<typeof keyRing>;

/** All keys of a store, in memory. */
export function keyRing(
  storage: Storage,
  { now, damaged, lost = () => {}, maxLost = 100_000 }: KeyRingOptions,
) {
  /** By object key. These objects are never replaced, so each is read once. */
  let objects = new Map<string, KeyObject>();
  let records = new Map<string, KeyRecord>();
  /** When each revoked key ends, by key id. */
  let ends = new Map<string, number>();
  let bySecret = new Map<string, KeyRecord>();
  let ready = false;
  /** Those that are there and cannot be read. */
  let reported = new Set<string>();
  /** Object keys of revocations that were read and are now gone. Nobody has the right to delete one. */
  const gone = new Set<string>();
  /** Why an object could not be read at the last reload. */
  let unread: StorageError | undefined;

  /** Undefined for what is gone, or cannot be read now. */
  async function read(objectKey: string): Promise<KeyObject | undefined> {
    try {
      const content = await readKeyObject(storage, objectKey);
      return content && "revokedAt" in content ? Date.parse(content.revokedAt) : content;
    } catch (error) {
      if (error instanceof StorageError && ready) {
        unread ??= error;
        return undefined;
      }
      if (!(error instanceof CorruptObjectError)) throw error;
      if (!reported.has(objectKey)) damaged(error);
      reported.add(objectKey);
      // An unreadable revocation ends its key at once: someone meant to revoke it.
      return isKeyRevocation(objectKey) ? 0 : undefined;
    }
  }

  function keepLost(fresh: typeof objects): void {
    for (const objectKey of gone) if (fresh.has(objectKey)) gone.delete(objectKey);
    for (const [objectKey, object] of objects) {
      if (typeof object !== "number" || fresh.has(objectKey)) continue;
      if (!gone.has(objectKey)) lost(objectKey);
      gone.add(objectKey);
      fresh.set(objectKey, object);
    }
    for (const oldest of gone) {
      if (gone.size <= maxLost) break;
      gone.delete(oldest);
      fresh.delete(oldest);
    }
  }

  /**
   * Reads new keys and revocations. Throws StorageError when the store cannot be read, and keeps the keys it has. If
   * only some objects cannot be read, the others count: whoever can put such an object there must not hold up
   * revocations.
   */
  async function reload(): Promise<void> {
    unread = undefined;
    const listed: string[] = [];
    for await (const { key } of storage.list(layout.key.prefix)) listed.push(key);
    const fresh: typeof objects = new Map();
    await inParallel(listed, async (objectKey) => {
      const object = objects.get(objectKey) ?? (await read(objectKey));
      if (object !== undefined) fresh.set(objectKey, object);
    });
    keepLost(fresh);
    reported = reported.intersection(new Set(listed));
    objects = fresh;
    records = new Map();
    ends = new Map();
    for (const [objectKey, object] of objects) {
      const id = keyIdOf(objectKey);
      if (typeof object === "number") ends.set(id, Math.min(object, ends.get(id) ?? object));
      else records.set(id, object);
    }
    bySecret = new Map(records.values().map((record) => [record.secretHash, record]));
    ready = true;
    if (unread) throw unread;
  }

  function verdictOn(record: KeyRecord): KeyVerdict {
    if ((ends.get(record.id) ?? Number.POSITIVE_INFINITY) <= now()) return { state: "revoked" };
    if (record.expiresAt !== undefined && Date.parse(record.expiresAt) <= now()) return { state: "expired" };
    return { state: "active", record };
  }

  return {
    /** False until the keys have been read once. Until then no key can be judged. */
    ready: () => ready,
    reload,
    judge(key: string): KeyVerdict {
      // Looking up the digest keeps timing from revealing anything about stored keys.
      const record = bySecret.get(sha256(key));
      if (record) return verdictOn(record);
      return { state: isWellFormedKey(key) ? "unknown" : keyPattern.test(key) ? "mistyped" : "malformed" };
    },
    judgeId(id: string): KeyVerdict {
      const record = records.get(id);
      return record ? verdictOn(record) : { state: "unknown" };
    },
  };
}
