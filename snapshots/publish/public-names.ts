import { hash } from "node:crypto";
import type { Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import { newestCommit } from "../store/commits.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { readManifest, readObject } from "../store/objects.ts";
import { sha256 } from "../store/sha256.ts";
import { type ObjectInfo, type Storage, StorageError } from "../store/storage.ts";

/** Public objects whose bytes are at hand, by hash. */
export type PublicObjects = ReadonlyMap<string, Buffer>;

/** Each repeated round means that another publisher got further meanwhile. */
const maxRounds = 16;

/**
 * Brings the stable names of the public tree to what the newest commit's manifest says, and returns that commit's
 * number. What they show is compared, never believed: a publisher that was stopped or delayed may have left anything.
 * Names of protocols that are gone stay until they are collected: publishers may not delete. Throws MissingObjectError,
 * CorruptObjectError or StorageError.
 */
export async function updatePublicNames(storage: Storage, atHand: PublicObjects): Promise<number> {
  for (let round = 0; round < maxRounds; round += 1) {
    // Listed before the newest commit is looked up: what a later commit's publisher changes from now on has another tag.
    const listed = new Map<string, ObjectInfo>();
    for await (const info of storage.list(layout.stableScores)) listed.set(info.key, info);
    const commit = await newestCommit(storage);
    if (!commit) return 0;
    const names = publicNames(await readManifest(storage, commit.manifest));
    const undisturbed = await showThese(storage, names, listed, atHand);
    // A name that a later commit left as it was may have been replaced here all the same.
    const newest = await newestCommit(storage, commit.commit);
    if (undisturbed && newest?.commit === commit.commit) return commit.commit;
  }
  throw new StorageError(`${storage.location}: other publishers keep changing the public names; run again`);
}

/** Puts what the names do not show yet; false when another publisher changed one of them meanwhile. */
async function showThese(
  storage: Storage,
  names: ReadonlyMap<string, ObjectRef>,
  listed: ReadonlyMap<string, ObjectInfo>,
  atHand: PublicObjects,
): Promise<boolean> {
  let undisturbed = true;
  await inParallel(names, async ([key, ref]) => {
    const info = listed.get(key);
    const known = atHand.get(ref.hash);
    if (info && (await shows(storage, info, ref, known))) return;
    const bytes = known ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
    const done = info ? await storage.replace(key, bytes, info.tag) : await storage.putIfAbsent(key, bytes);
    undisturbed &&= done;
  });
  return undisturbed;
}

/** Whether a name holds an object. Where S3 tells the MD5 of what it holds, nothing need be fetched. */
async function shows(
  storage: Storage,
  { key, bytes, tag }: ObjectInfo,
  ref: ObjectRef,
  known: Buffer | undefined,
): Promise<boolean> {
  if (bytes !== ref.bytes) return false;
  if (known && tag === hash("md5", known)) return true;
  try {
    const stored = await storage.get(key, { maxBytes: ref.bytes });
    return stored !== undefined && sha256(stored) === ref.hash;
  } catch (error) {
    if (error instanceof CorruptObjectError) return false;
    throw error;
  }
}

/** What each stable name shows. */
export function publicNames({ scores }: Manifest): Map<string, ObjectRef> {
  const records = Object.entries(scores.records).map(
    ([slug, ref]) => [layout.stableScore(slug), ref] as const,
  );
  return new Map([[layout.stableScoreList, scores.list], ...records]);
}
