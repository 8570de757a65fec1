import type { Commit } from "../../schemas/snapshot.ts";
import { type Entries, type Tile, tileEncoder, tilesOf, tileWidth } from "../format/log-tree.ts";
import { treeHead } from "../format/tree.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import {
  completeEntries,
  entriesOfCommits,
  entryOf,
  indexOf,
  LogTree,
  lastBundle,
  listTiles,
  readBundle,
  tileKey,
} from "../store/log/public-log.ts";
import type { Storage } from "../store/storage.ts";
import { putIfDifferent } from "./site.ts";

/**
 * Brings the public log to a commit. It compares what the last bundle and its tile hold, and sees that the others are
 * there; what those hold it compares at every 256th commit, and where some are `faulty`. What is missing or wrong is
 * made anew from the bundles that agree with their tiles, or else from the commits. Where neither has an entry any
 * more, nothing is written. Throws StorageError.
 */
export async function updatePublicLog(
  storage: Storage,
  newest: Commit,
  faulty: ReadonlySet<string> = new Set(),
): Promise<void> {
  const size = newest.commit;
  const wanted = tilesOf(size);
  const listed = await listTiles(storage, size);
  const damaged = [...faulty].some((key) => key.startsWith(layout.logTiles));
  const tail = damaged ? undefined : await tailOf(storage, newest);
  const last = indexOf(size);
  const isLast = ({ level, index }: Tile) => (level === "entries" || level === 0) && index === last;
  const othersAreThere = wanted.every((tile) => isLast(tile) || listed.has(tileKey(tile)));
  if (tail && size % tileWidth !== 0 && othersAreThere)
    return putTiles(storage, wanted.filter(isLast), [...Array(last * tileWidth), ...tail]);
  const tiles = [...listed.values(), ...wanted.filter((tile) => !listed.has(tileKey(tile)))];
  const known = tail && (await completeEntries(storage, [...Array(last * tileWidth), ...tail], listed));
  if (known && !known.includes(undefined)) return putTiles(storage, tiles, known);
  const entries = await completeEntries(storage, await entriesOfCommits(storage, newest), listed);
  if (!entries.includes(undefined)) await putTiles(storage, tiles, entries);
}

/**
 * The entries of the last bundle: as it is stored, or as the one before goes on. Undefined where neither fits the
 * commit.
 */
async function tailOf(storage: Storage, newest: Commit): Promise<Buffer[] | undefined> {
  const [size, entry] = [newest.commit, entryOf(newest)];
  const stored = await readBundle(storage, lastBundle(size));
  if (stored?.at(-1)?.equals(entry)) return stored;
  if (size === 1) return [entry];
  const before = await readBundle(storage, lastBundle(size - 1));
  if (!before?.at(-1)?.toString().endsWith(`,"record":"${newest.previous}"}`)) return undefined;
  return before.length === tileWidth ? [entry] : [...before, entry];
}

/** Writes those tiles that the store lacks or has otherwise. */
async function putTiles(storage: Storage, tiles: readonly Tile[], entries: Entries): Promise<void> {
  const encode = tileEncoder(entries);
  await inParallel(tiles, async (tile) => {
    const bytes = encode(tile);
    if (bytes) await putIfDifferent(storage, tileKey(tile), bytes);
  });
}

/**
 * The tree of the log up to a commit, of which the tiles are mended where they do not give it. Throws as LogTree.upTo
 * does.
 */
export async function treeUpTo(storage: Storage, newest: Commit): Promise<LogTree> {
  // What a killed run left is cheap to add; what is damaged takes reading all of it.
  for (const faulty of [undefined, new Set([layout.logTiles])]) {
    const tree = await LogTree.fromTiles(storage, newest);
    if (tree) return tree;
    await updatePublicLog(storage, newest, faulty);
  }
  return LogTree.upTo(storage, newest);
}

/**
 * The head, in hexadecimal, over the entries up to the newest commit: `tree` of the commit that follows. Throws as
 * treeUpTo does.
 */
export async function treeBefore(storage: Storage, newest: Commit | undefined): Promise<string> {
  return (newest ? (await treeUpTo(storage, newest)).head : treeHead([])).toString("hex");
}
