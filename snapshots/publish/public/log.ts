import type { Commit } from "../../../schemas/store/snapshot.ts";
import { type Tile, tilesOf, tileWidth } from "../../format/log-tiles.ts";
import { type Entries, tileEncoder } from "../../format/log-tree.ts";
import { treeHead } from "../../format/tree.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import {
  completeEntries,
  entriesOfCommits,
  entryOf,
  hashesOf,
  indexOf,
  LogTree,
  lastBundle,
  readEntries,
  tileKey,
  tilesAmong,
} from "../../store/log/public-log.ts";
import type { Storage } from "../../store/storage.ts";
import { PublicTree } from "./tree.ts";

/**
 * Brings the public log to a commit. Compares the last bundle and its tile, and sees that the others are there;
 * compares those too at every 256th commit, and where some are `faulty`. What is missing or wrong is made anew from
 * bundles that agree with their tiles, or else from the commits. Where neither has an entry any more, nothing is
 * written. `ends` reads the entries in which the log ends.
 */
export async function updatePublicLog(tree: PublicTree, newest: Commit, ends?: ReadEnd): Promise<void> {
  const { storage, faulty } = tree;
  const size = newest.commit;
  const wanted = tilesOf(size);
  const listed = tilesAmong(
    tree.under(layout.logTile.prefix).map(({ key }) => key),
    size,
  );
  const damaged = [...faulty].some((key) => key.startsWith(layout.logTile.prefix));
  const tail = damaged ? undefined : await tailOf(tree, newest, ends);
  const last = indexOf(size);
  const isLast = ({ level, index }: Tile) => (level === "entries" || level === 0) && index === last;
  const othersAreThere = wanted.every((tile) => isLast(tile) || listed.has(tileKey(tile)));
  if (tail && size % tileWidth !== 0 && othersAreThere)
    return putTiles(tree, wanted.filter(isLast), [...Array(last * tileWidth), ...tail]);
  const tiles = [...listed.values(), ...wanted.filter((tile) => !listed.has(tileKey(tile)))];
  const known = tail && (await completeEntries(storage, [...Array(last * tileWidth), ...tail], listed));
  if (known && !known.includes(undefined)) return putTiles(tree, tiles, known);
  const entries = await completeEntries(storage, await entriesOfCommits(storage, newest), listed);
  if (!entries.includes(undefined)) await putTiles(tree, tiles, entries);
}

type ReadEnd = () => Promise<readonly Buffer[] | undefined>;

/**
 * The entries of the last bundle: as stored, or those of the log before and the new one. Undefined where neither fits
 * the commit.
 */
async function tailOf(
  tree: PublicTree,
  newest: Commit,
  ends?: ReadEnd,
): Promise<readonly Buffer[] | undefined> {
  const [size, entry] = [newest.commit, entryOf(newest)];
  const stored = await bundleOf(tree, size, ends);
  if (stored?.at(-1)?.equals(entry)) return stored;
  if (size === 1) return [entry];
  const before = await bundleOf(tree, size - 1);
  if (!before?.at(-1)?.toString().endsWith(`,"record":"${newest.previous}"}`)) return undefined;
  return before.length === tileWidth ? [entry] : [...before, entry];
}

/** Undefined where the bundle does not agree with its tile of hashes. */
async function bundleOf(tree: PublicTree, size: number, ends?: ReadEnd) {
  const bundle = lastBundle(size);
  if (!(await tree.infoOf(tileKey(bundle)))) return undefined;
  const entries = await (ends ? ends() : readEntries(tree.storage, bundle));
  return entries && (await tree.holds(...hashesOf(bundle, entries))) ? entries : undefined;
}

/** Writes those tiles that the store lacks or has with other bytes. */
async function putTiles(tree: PublicTree, tiles: readonly Tile[], entries: Entries): Promise<void> {
  const encode = tileEncoder(entries);
  await inParallel(tiles, async (tile) => {
    const bytes = encode(tile);
    if (bytes) await tree.putIfDifferent(tileKey(tile), bytes);
  });
}

/** The tree of the log up to a commit. Mends the tiles where they do not give it. */
export async function treeUpTo(storage: Storage, newest: Commit): Promise<LogTree> {
  // What a killed run left is cheap to add; damage takes reading all of the log.
  for (const faulty of [undefined, new Set([layout.logTile.prefix])]) {
    const tree = await LogTree.fromTiles(storage, newest);
    if (tree) return tree;
    await updatePublicLog(await PublicTree.of(storage, faulty), newest);
  }
  return LogTree.upTo(storage, newest);
}

/** In hexadecimal, over the entries up to the newest commit: `tree` of the commit that follows. */
export async function treeBefore(storage: Storage, newest: Commit | undefined): Promise<string> {
  return (newest ? (await treeUpTo(storage, newest)).head : treeHead([])).toString("hex");
}
