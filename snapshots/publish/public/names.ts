import type { Commit, Manifest, NamedObject } from "../../../schemas/store/snapshot.ts";
import type { Addresses } from "../../artefacts/addresses.ts";
import { artefactsOf } from "../../artefacts/artefacts.ts";
import { cardKey } from "../../artefacts/card.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { artefactFolders, layout, sha256 } from "../../store/layout.ts";
import { readManifest } from "../../store/manifest.ts";
import { readObject, referTo } from "../../store/objects.ts";
import { listedOnce, type Storage, StorageError } from "../../store/storage.ts";
import { newestTrustedFrom, type Trust } from "../../trust/trust.ts";
import { artefactsAt } from "./artefacts.ts";
import { PublicTree } from "./tree.ts";

/** What a run has at hand of the newest commit. */
export interface AtHand {
  /** By hash. */
  objects: ReadonlyMap<string, Buffer>;
  /** The newest commit that the run knows of, and what its manifest says of scores. */
  commit: Commit;
  manifest?: Pick<Manifest, "scores"> | undefined;
}

/** Another round is needed only when another publisher changed something meanwhile. */
const maxRounds = 16;

/**
 * Updates the stable names of the public tree to a commit, or to a later one that is the newest meanwhile; with `trust`
 * to the newest that a trusted key signed. Returns its number. With `addresses` the artefacts are updated too. Contents
 * are always compared, since a publisher that was stopped or delayed may have left anything there. Names of removed
 * protocols stay until the next collection, because publishers may not delete.
 */
export async function updatePublicNames(
  storage: Storage,
  shown: Shown,
  { objects, ...atHand }: AtHand,
  addresses: Addresses | undefined,
  trust: Trust | undefined,
): Promise<number> {
  let { tree, commit } = shown;
  for (let round = 0; round < maxRounds; round += 1) {
    const isAtHand = atHand.commit.digest === commit.digest;
    const manifest = (isAtHand && atHand.manifest) || (await readManifest(storage, commit));
    const names = publicNames(manifest);
    const inMemory = new Map(objects);
    const artefacts =
      addresses && (await artefactsAt(storage, commit.entry, manifest, addresses, trust, objects));
    let changed = false;
    // Before the pages that name them.
    await inParallel(artefacts?.cards ?? [], async ([key, draw]) => {
      if (tree.faulty.has(key) || !(await tree.infoOf(key))) await tree.putIfDifferent(key, draw());
    });
    for (const [key, bytes] of artefacts?.files ?? []) {
      const ref = referTo(bytes);
      inMemory.set(ref.hash, bytes);
      if (artefactFolders.some((folder) => key.startsWith(folder))) names.set(key, ref);
      else if (await tree.putIfDifferent(key, bytes)) changed = true;
    }
    const outcome = await updateNames(tree, names, inMemory);
    if (!changed && outcome === "same") return commit.entry.commit;
    // A later commit may have kept a name that this round has just replaced, so its publisher would not put it right.
    const newest = await newestTrustedFrom(storage, commit, trust);
    if (outcome !== "disturbed" && newest.entry.commit === commit.entry.commit) return commit.entry.commit;
    ({ tree, commit } = await showNewest(storage, trust, tree.faulty, commit));
  }
  throw new StorageError(`${storage.location}: other publishers keep changing the public names; run again`);
}

/** The newest commit, and the public tree as it was listed before that was found. */
export interface Shown {
  /** What the publisher of a later commit changes after the listing has another tag. */
  tree: PublicTree;
  commit: Commit;
}

/** Lists the public tree and finds the newest commit. `known` was the newest before. */
export async function showNewest(
  storage: Storage,
  trust: Trust | undefined,
  faulty: ReadonlySet<string> | undefined,
  known: Commit,
): Promise<Shown> {
  const tree = await PublicTree.of(listedOnce(storage, layout.publicTree), faulty);
  return { tree, commit: await newestTrustedFrom(storage, known, trust) };
}

/** "same": none was out of date. "disturbed": another publisher changed one of them meanwhile. */
async function updateNames(
  tree: PublicTree,
  names: ReadonlyMap<string, NamedObject>,
  inMemory: AtHand["objects"],
): Promise<"same" | "changed" | "disturbed"> {
  const { storage } = tree;
  const done: boolean[] = [];
  await inParallel(names, async ([key, ref]) => {
    const info = await tree.infoOf(key);
    const own = inMemory.get(ref.hash);
    if (info && (await (own ? tree.holds(key, own) : nameHolds(storage, key, ref)))) return;
    const bytes = own ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
    done.push(await (info ? storage.replace(key, bytes, info.tag) : storage.putIfAbsent(key, bytes)));
  });
  if (done.length === 0) return "same";
  return done.includes(false) ? "disturbed" : "changed";
}

async function nameHolds(storage: Storage, key: string, { hash }: NamedObject): Promise<boolean> {
  const maxBytes = layout.publicObject.maxBytes!;
  const stored = await unless(CorruptObjectError, () => storage.get(key, { maxBytes }));
  return stored !== undefined && sha256(stored) === hash;
}

/** By key. */
export function publicNames({ scores }: Pick<Manifest, "scores">): Map<string, NamedObject> {
  const records = Object.entries(scores.records).map(
    ([slug, ref]) => [layout.stableScore(slug), ref] as const,
  );
  return new Map([[layout.stableScoreList, scores.list], ...records]);
}

/** The keys that this manifest's protocols keep: their stable names and their artefacts. */
export function namesOfProtocols(manifest: Pick<Manifest, "scores">): string[] {
  const artefacts = Object.entries(manifest.scores.records).flatMap(([slug, { hash }]) => [
    ...artefactsOf(slug),
    cardKey(slug, hash),
  ]);
  return [...publicNames(manifest).keys(), layout.protocolList, layout.listEmbed, ...artefacts];
}
