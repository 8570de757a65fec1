import type { Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import { newestCommit } from "../commits.ts";
import { inParallel } from "../in-parallel.ts";
import { layout } from "../layout.ts";
import { readManifest, readObject } from "../objects.ts";
import type { Storage } from "../storage/storage.ts";

/**
 * Brings the stable names of the public tree to what the newest commit's manifest says, and returns that commit's
 * number. `shown` is the manifest they are known to show, if any: what it has in common is left alone where the store
 * still lists it. Names of protocols that are gone stay until they are collected: publishers may not delete.
 */
export async function projectPublicNames(storage: Storage, shown: Manifest | undefined): Promise<number> {
  let known = shown;
  for (;;) {
    const commit = await newestCommit(storage);
    if (!commit) return 0;
    const manifest = await readManifest(storage, commit.manifest);
    const names = known ? await namesShowing(storage, known) : new Map<string, ObjectRef>();
    const changed = [...publicNames(manifest)].filter(([key, ref]) => names.get(key)?.hash !== ref.hash);
    await inParallel(changed, async ([key, ref]) => {
      await storage.put(key, await readObject(storage, layout.publicObject(ref.hash), ref));
    });
    // Another publisher may have projected its later commit meanwhile, and been overwritten in part.
    if ((await newestCommit(storage, commit.commit))?.commit === commit.commit) return commit.commit;
    known = undefined;
  }
}

/** The names that the store lists, with what they show. */
async function namesShowing(storage: Storage, shown: Manifest): Promise<Map<string, ObjectRef>> {
  const wanted = publicNames(shown);
  const stored = new Map<string, ObjectRef>();
  for await (const { key, bytes } of storage.list(layout.stableScores)) {
    const ref = wanted.get(key);
    if (ref?.bytes === bytes) stored.set(key, ref);
  }
  return stored;
}

/** What each stable name shows. */
export function publicNames({ scores }: Manifest): Map<string, ObjectRef> {
  const records = Object.entries(scores.records).map(
    ([slug, ref]) => [layout.stableScore(slug), ref] as const,
  );
  return new Map([[layout.stableScoreList, scores.list], ...records]);
}
