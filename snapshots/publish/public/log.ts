import type { Commit } from "../../../schemas/store/snapshot.ts";
import { type Tile, tilesOf, tileWidth } from "../../format/log-tiles.ts";
import { type Entries, encodeEntries, tileEncoder } from "../../format/log-tree.ts";
import { treeHead } from "../../format/tree.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import {
  entriesUpTo,
  entryOf,
  LogTree,
  lastBundle,
  leavesOf,
  readEntries,
  tileCheck,
  tileKey,
  tilesAmong,
} from "../../store/log/public-log.ts";
import type { Storage } from "../../store/storage.ts";
import type { PublicTree } from "./tree.ts";

/**
 * Brings the public log to a commit. Sees by the last bundle that the tiles give its tree, and that all of them are
 * there; compares all at every 256th commit, and where some are `faulty`. What is missing or wrong is made anew from
 * the commits. Of those that are gone, hashes are made from the tiles below, and entries stay as they are. `ends` reads
 * the entries in which the log ends.
 */
export async function updatePublicLog(tree: PublicTree, newest: Commit, ends?: ReadEnd): Promise<void> {
  const { storage, faulty } = tree;
  const size = newest.commit;
  const wanted = tilesOf(size);
  const stored = tilesAmong(
    tree.under(layout.logTile.prefix).map(({ key }) => key),
    size,
  );
  const lacking = wanted.filter((tile) => !stored.has(tileKey(tile)));
  const all = [...stored.values(), ...lacking];
  const { index, width } = lastBundle(size);
  const isLast = (tile: Tile) => (tile.level === "entries" || tile.level === 0) && tile.index === index;
  const tail = await tailOf(storage, newest, stored, ends);
  const ofTail: Entries = [...Array(index * tileWidth).fill(undefined), ...(tail ?? [])];
  if (tail && ![...faulty].some((key) => key.startsWith(layout.logTile.prefix))) {
    const grows = width < tileWidth && lacking.every(isLast);
    if (grows && (await LogTree.byTiles(storage, newest, tail)))
      return putTiles(tree, wanted.filter(isLast), ofTail);
    const leaves = await leavesOf(storage, newest, ofTail);
    const others = wanted.filter((tile) => tile.level === "entries" && !isLast(tile));
    if (leaves && (await areRight(storage, others, leaves))) return putTiles(tree, all, ofTail, leaves);
  }
  const entries = (await entriesUpTo(storage, newest)).map((entry, place) => entry ?? ofTail[place]);
  const leaves = await leavesOf(storage, newest, entries);
  if (leaves) await putTiles(tree, all, entries, leaves);
}

type ReadEnd = () => Promise<readonly Buffer[] | undefined>;

/** The entries of the last bundle, of which nobody has checked those before the newest. */
async function tailOf(
  storage: Storage,
  newest: Commit,
  stored: ReadonlyMap<string, Tile>,
  ends?: ReadEnd,
): Promise<readonly Buffer[] | undefined> {
  const [last, before] = [lastBundle(newest.commit), lastBundle(newest.commit - 1)];
  if (last.width === 1) return [entryOf(newest)];
  const bundle = [last, before].find((tile) => stored.has(tileKey(tile)));
  const entries = bundle && (await (bundle === last && ends ? ends() : readEntries(storage, bundle)));
  return entries && [...entries.slice(0, last.width - 1), entryOf(newest)];
}

/** Whether bundles hold the entries of which these are the hashes. */
async function areRight(storage: Storage, bundles: readonly Tile[], leaves: Entries): Promise<boolean> {
  const isRight = tileCheck(leaves);
  const verdicts = new Set<boolean>();
  await inParallel(bundles, async (bundle) => {
    const entries = await readEntries(storage, bundle);
    verdicts.add(entries !== undefined && isRight(bundle, encodeEntries(entries)));
  });
  return !verdicts.has(false);
}

/** Writes those tiles that the store lacks or has with other bytes. */
async function putTiles(
  tree: PublicTree,
  tiles: readonly Tile[],
  entries: Entries,
  leaves?: Entries,
): Promise<void> {
  const encode = tileEncoder(entries, leaves);
  await inParallel(tiles, async (tile) => {
    const bytes = encode(tile);
    if (bytes) await tree.putIfDifferent(tileKey(tile), bytes);
  });
}

/** In hexadecimal, over the entries up to the newest commit: `tree` of the commit that follows. */
export async function treeBefore(storage: Storage, newest: Commit | undefined): Promise<string> {
  return (newest ? (await LogTree.upTo(storage, newest)).head : treeHead([])).toString("hex");
}
