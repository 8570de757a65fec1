import { type KeyRecord, type KeyRevocation, keyPattern } from "../../schemas/keys.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { isKeyRevocation, layout } from "../store/layout.ts";
import { sha256 } from "../store/sha256.ts";
import type { Storage } from "../store/storage.ts";
import { isWellFormedKey } from "./key-format.ts";
import { keyIdOf, readKeyObject } from "./records.ts";

/** What a presented key is worth at a moment. */
export type KeyVerdict =
  | { state: "active"; record: KeyRecord }
  | { state: "malformed" | "mistyped" | "unknown" | "expired" | "revoked" };

/** The keys of a store, as the gate knows them. */
export interface KeyRing {
  /** False until the store's keys were read once; before that nobody can be told from anybody. */
  ready(): boolean;
  /** Judges a key as it was presented, at this moment. */
  judge(key: string): KeyVerdict;
  /**
   * Takes up new keys and revocations. Throws StorageError and keeps what it has when the store cannot be
   * read.
   */
  reload(): Promise<void>;
}

/**
 * A key ring over a store. `now` in epoch milliseconds; `damaged` hears of every record that cannot be read,
 * once.
 */
export function keyRing(
  storage: Storage,
  { now, damaged }: { now: () => number; damaged: (error: CorruptObjectError) => void },
): KeyRing {
  let records = new Map<string, KeyRecord>();
  /** By the names of their objects, of which none is ever replaced. */
  let revocations = new Map<string, KeyRevocation | "unreadable">();
  /** By key id, in epoch milliseconds. */
  let ends = new Map<string, number>();
  let bySecret = new Map<string, KeyRecord>();
  let ready = false;
  const reported = new Set<string>();

  async function read(objectKey: string) {
    try {
      return (await readKeyObject(storage, objectKey)) ?? {};
    } catch (error) {
      if (!(error instanceof CorruptObjectError)) throw error;
      if (!reported.has(objectKey)) damaged(error);
      reported.add(objectKey);
      return "unreadable";
    }
  }

  async function recordOf(objectKey: string): Promise<KeyRecord | undefined> {
    const known = records.get(keyIdOf(objectKey));
    if (known) return known;
    const entry = await read(objectKey);
    return entry === "unreadable" ? undefined : entry.record;
  }

  async function revocationOf(objectKey: string): Promise<KeyRevocation | "unreadable" | undefined> {
    const known = revocations.get(objectKey);
    if (known) return known;
    const entry = await read(objectKey);
    return entry === "unreadable" ? entry : entry.revocation;
  }

  // A revocation that cannot be read ends its key: someone meant it to end.
  const endOf = (revocation: KeyRevocation | "unreadable") =>
    revocation === "unreadable" ? 0 : Date.parse(revocation.revokedAt);

  async function reload() {
    const nextRecords: typeof records = new Map();
    const nextRevocations: typeof revocations = new Map();
    const nextEnds: typeof ends = new Map();
    for await (const { key: objectKey } of storage.list(layout.keys)) {
      const id = keyIdOf(objectKey);
      if (isKeyRevocation(objectKey)) {
        const revocation = await revocationOf(objectKey);
        if (!revocation) continue;
        nextRevocations.set(objectKey, revocation);
        nextEnds.set(id, Math.min(endOf(revocation), nextEnds.get(id) ?? Number.POSITIVE_INFINITY));
      } else {
        const record = await recordOf(objectKey);
        if (record) nextRecords.set(id, record);
      }
    }
    records = nextRecords;
    revocations = nextRevocations;
    ends = nextEnds;
    bySecret = new Map([...records.values()].map((record) => [record.secretHash, record]));
    ready = true;
  }

  return {
    ready: () => ready,
    reload,
    judge(key) {
      if (!isWellFormedKey(key)) return { state: keyPattern.test(key) ? "mistyped" : "malformed" };
      // The digest, not the key, is looked up: what the lookup's timing tells says nothing about any key.
      const record = bySecret.get(sha256(key));
      if (!record) return { state: "unknown" };
      if ((ends.get(record.id) ?? Number.POSITIVE_INFINITY) <= now()) return { state: "revoked" };
      if (record.expiresAt !== undefined && Date.parse(record.expiresAt) <= now())
        return { state: "expired" };
      return { state: "active", record };
    },
  };
}
