import { type KeyRecord, keyPattern } from "../../schemas/store/keys.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { isKeyRevocation, layout, sha256 } from "../store/layout.ts";
import { type Storage, StorageError } from "../store/storage.ts";
import { isWellFormedKey, keyIdOf, readKeyObject } from "./records.ts";

/** The state of a key that somebody presents. */
export type KeyVerdict =
  | { state: "active"; record: KeyRecord }
  | { state: "malformed" | "mistyped" | "unknown" | "expired" | "revoked" };

/** What its holder is told of a key that is not active. */
export const keyFaults: Record<Exclude<KeyVerdict["state"], "active">, string> = {
  malformed: "The API key is malformed: a key is prs_live_ and 38 letters and digits, copied whole.",
  mistyped: "The API key is mistyped: its checksum does not match. Copy it again, whole.",
  unknown: "The API key is unknown to this service.",
  expired: "The API key has expired.",
  revoked: "The API key has been revoked.",
};

/** All keys of a store, in memory. */
export interface KeyRing {
  /** False until the keys have been read once. Until then no key can be judged. */
  ready(): boolean;
  judge(key: string): KeyVerdict;
  judgeId(id: string): KeyVerdict;
  /**
   * Reads new keys and revocations. Throws StorageError when the store cannot be read, and keeps the keys it has. If
   * only some objects cannot be read, the others count: whoever can put such an object there must not hold up
   * revocations.
   */
  reload(): Promise<void>;
}

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

export function keyRing(
  storage: Storage,
  { now, damaged, lost = () => {}, maxLost = 100_000 }: KeyRingOptions,
): KeyRing {
  /** By object key. These objects are never replaced, so each is read once. */
  let objects = new Map<string, KeyObject>();
  let records = new Map<string, KeyRecord>();
  /** When each revoked key ends, by key id. */
  let ends = new Map<string, number>();
  let bySecret = new Map<string, KeyRecord>();
  let ready = false;
  const reported = new Set<string>();
  /** Object keys of revocations that were read and are now gone. Nobody has the right to delete one. */
  const gone = new Set<string>();
  /** Why an object could not be read at the last reload. */
  let unread: StorageError | undefined;

  /** Undefined for what is gone, or cannot be read now. */
  async function read(objectKey: string): Promise<KeyObject | undefined> {
    try {
      const found = await readKeyObject(storage, objectKey);
      return found?.record ?? (found?.revocation && Date.parse(found.revocation.revokedAt));
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

  function keepLost(found: typeof objects): void {
    for (const objectKey of gone) if (found.has(objectKey)) gone.delete(objectKey);
    for (const [objectKey, object] of objects) {
      if (typeof object !== "number" || found.has(objectKey)) continue;
      if (!gone.has(objectKey)) lost(objectKey);
      gone.add(objectKey);
      found.set(objectKey, object);
    }
    for (const oldest of gone) {
      if (gone.size <= maxLost) break;
      gone.delete(oldest);
      found.delete(oldest);
    }
  }

  async function reload() {
    unread = undefined;
    const listed: string[] = [];
    for await (const { key } of storage.list(layout.key.prefix)) listed.push(key);
    const look = async (objectKey: string) => objects.get(objectKey) ?? (await read(objectKey));
    const found: typeof objects = new Map();
    for (const [index, object] of (await inParallel(listed, look)).entries())
      if (object !== undefined) found.set(listed[index]!, object);
    keepLost(found);
    objects = found;
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
    ready: () => ready,
    reload,
    judge(key) {
      // Looking up the digest keeps timing from revealing anything about stored keys.
      const record = bySecret.get(sha256(key));
      if (record) return verdictOn(record);
      return { state: isWellFormedKey(key) ? "unknown" : keyPattern.test(key) ? "mistyped" : "malformed" };
    },
    judgeId(id) {
      const record = records.get(id);
      return record ? verdictOn(record) : { state: "unknown" };
    },
  };
}
