import { hash } from "node:crypto";
import type { Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import type { Addresses } from "../artefacts/addresses.ts";
import { artefactsOf } from "../artefacts/artefacts.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { artefactFolders, layout, sha256 } from "../store/layout.ts";
import { readManifest } from "../store/manifest.ts";
import { readObject, referTo } from "../store/objects.ts";
import { type ObjectInfo, type Storage, StorageError } from "../store/storage.ts";
import { newestBelieved } from "../trust/log/newest-trusted.ts";
import type { Trust } from "../trust/trust.ts";
import { artefactsAt } from "./public-artefacts.ts";
import { putIfDifferent } from "./site.ts";

/** Bytes of public objects, by hash. */
export type ObjectsByHash = ReadonlyMap<string, Buffer>;

/** Another round is needed only when another publisher changed something meanwhile. */
const maxRounds = 16;

/**
 * Updates the stable names of the public tree to the manifest of the newest commit, with `trust` of the newest that a
 * trusted key signed. Returns that commit's number, or 0 when there is none. With `addresses` the artefacts are brought
 * up to date too. Their content is always compared, since a publisher that was stopped or delayed may have left
 * anything there. Names of removed protocols stay until the next collection, because publishers may not delete.
 */
export async function updatePublicNames(
  storage: Storage,
  inMemory: ObjectsByHash,
  addresses: Addresses | undefined,
  trust: Trust | undefined,
): Promise<number> {
  for (let round = 0; round < maxRounds; round += 1) {
    // Listed before the newest commit is read: what the publisher of a later commit changes from here on has another
    // tag.
    const listed = new Map<string, ObjectInfo>();
    for (const folder of [layout.stableScores, ...(addresses ? artefactFolders : [])])
      for await (const info of storage.list(folder)) listed.set(info.key, info);
    const commit = await newestBelieved(storage, trust);
    if (!commit) return 0;
    const manifest = await readManifest(storage, commit.manifest);
    const names = publicNames(manifest);
    const known = new Map(inMemory);
    const artefacts = addresses && (await artefactsAt(storage, commit, manifest, addresses, trust, inMemory));
    for (const [key, bytes] of artefacts ?? []) {
      const ref = referTo(bytes);
      known.set(ref.hash, bytes);
      if (artefactFolders.some((folder) => key.startsWith(folder))) names.set(key, ref);
      else await putIfDifferent(storage, key, bytes);
    }
    const undisturbed = await updateNames(storage, names, listed, known);
    // A later commit may have kept a name that this round has just replaced, so its publisher would not put it right.
    const newest = await newestBelieved(storage, trust, commit.commit);
    if (undisturbed && newest?.commit === commit.commit) return commit.commit;
  }
  throw new StorageError(`${storage.location}: other publishers keep changing the public names; run again`);
}

/** Updates the names that are out of date. Returns false when another publisher changed one of them meanwhile. */
async function updateNames(
  storage: Storage,
  names: ReadonlyMap<string, ObjectRef>,
  listed: ReadonlyMap<string, ObjectInfo>,
  inMemory: ObjectsByHash,
): Promise<boolean> {
  let undisturbed = true;
  await inParallel(names, async ([key, ref]) => {
    const info = listed.get(key);
    const known = inMemory.get(ref.hash);
    if (info && (await nameHolds(storage, info, ref, known))) return;
    const bytes = known ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
    const done = info ? await storage.replace(key, bytes, info.tag) : await storage.putIfAbsent(key, bytes);
    undisturbed &&= done;
  });
  return undisturbed;
}

/** Whether a name holds this object. If the store's tag is an MD5, as on S3, nothing has to be fetched. */
async function nameHolds(
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

/** The object that each stable name must hold, by key. */
export function publicNames({ scores }: Pick<Manifest, "scores">): Map<string, ObjectRef> {
  const records = Object.entries(scores.records).map(
    ([slug, ref]) => [layout.stableScore(slug), ref] as const,
  );
  return new Map([[layout.stableScoreList, scores.list], ...records]);
}

/** The keys that only this manifest's protocols keep: their stable names and their artefacts. */
export function namesOfProtocols(manifest: Pick<Manifest, "scores">): string[] {
  return [...publicNames(manifest).keys(), ...Object.keys(manifest.scores.records).flatMap(artefactsOf)];
}
