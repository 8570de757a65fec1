import { type KeyRecord, type KeyRevocation, keyPattern } from "../../schemas/store/keys.ts";
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

/** Neither is there where the object could not be read now. */
type KeyObject = { record?: KeyRecord; revocation?: KeyRevocation } | "unreadable";

export function keyRing(
  storage: Storage,
  { now, damaged, lost = () => {}, maxLost = 100_000 }: KeyRingOptions,
): KeyRing {
  let records = new Map<string, KeyRecord>();
  /** By object key. These objects are never replaced, so each is read once. */
  let revocations = new Map<string, KeyRevocation | "unreadable">();
  /** When each revoked key ends, by key id, in epoch milliseconds. */
  let ends = new Map<string, number>();
  let bySecret = new Map<string, KeyRecord>();
  let ready = false;
  const reported = new Set<string>();
  /** Object keys of revocations that were read and are now gone. Nobody has the right to delete one. */
  const gone = new Set<string>();
  /** Why an object could not be read at the last reload. */
  let unread: StorageError | undefined;

  async function read(objectKey: string): Promise<KeyObject> {
    try {
      return (await readKeyObject(storage, objectKey)) ?? {};
    } catch (error) {
      if (error instanceof StorageError && ready) {
        unread ??= error;
        return {};
      }
      if (!(error instanceof CorruptObjectError)) throw error;
      if (!reported.has(objectKey)) damaged(error);
      reported.add(objectKey);
      return "unreadable";
    }
  }

  const knownOf = (objectKey: string): KeyObject | undefined => {
    const [record, revocation] = [records.get(keyIdOf(objectKey)), revocations.get(objectKey)];
    if (isKeyRevocation(objectKey))
      return revocation === "unreadable" ? revocation : revocation && { revocation };
    return record && { record };
  };

  // An unreadable revocation ends its key at once: someone meant to revoke it.
  const endOf = (revocation: KeyRevocation | "unreadable") =>
    revocation === "unreadable" ? 0 : Date.parse(revocation.revokedAt);

  function keepLost(next: typeof revocations): void {
    for (const objectKey of gone) if (next.has(objectKey)) gone.delete(objectKey);
    for (const [objectKey, revocation] of revocations) {
      if (next.has(objectKey)) continue;
      if (!gone.has(objectKey)) lost(objectKey);
      gone.add(objectKey);
      next.set(objectKey, revocation);
    }
    for (const oldest of gone) {
      if (gone.size <= maxLost) break;
      gone.delete(oldest);
      next.delete(oldest);
    }
  }

  async function reload() {
    const nextRecords: typeof records = new Map();
    const nextRevocations: typeof revocations = new Map();
    const nextEnds: typeof ends = new Map();
    unread = undefined;
    const found = new Map<string, KeyObject | undefined>();
    for await (const { key: objectKey } of storage.list(layout.key.prefix))
      found.set(objectKey, knownOf(objectKey));
    await inParallel([...found], async ([objectKey, known]) => {
      if (!known) found.set(objectKey, await read(objectKey));
    });
    for (const [objectKey, entry] of found) {
      const unreadable = entry === "unreadable";
      const { record, revocation } = unreadable || !entry ? {} : entry;
      if (record) nextRecords.set(record.id, record);
      if (isKeyRevocation(objectKey) && (unreadable || revocation))
        nextRevocations.set(objectKey, revocation ?? "unreadable");
    }
    keepLost(nextRevocations);
    for (const [objectKey, revocation] of nextRevocations) {
      const id = keyIdOf(objectKey);
      nextEnds.set(id, Math.min(endOf(revocation), nextEnds.get(id) ?? Number.POSITIVE_INFINITY));
    }
    records = nextRecords;
    revocations = nextRevocations;
    ends = nextEnds;
    bySecret = new Map([...records.values()].map((record) => [record.secretHash, record]));
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
