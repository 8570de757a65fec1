import type { Commit } from "../../schemas/snapshot.ts";
import {
  decodeEntries,
  type Entries,
  endOf,
  type Tile,
  tileAt,
  tileEncoder,
  tilePath,
  tilesOf,
  tileWidth,
} from "../format/log-tree.ts";
import { leafHash } from "../format/tree.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { isBroken, logFrom } from "../store/log/commit-chain.ts";
import type { Storage } from "../store/storage.ts";
import { putIfDifferent } from "./site.ts";

/** A bundle of the longest entries that there can be. */
const maxBundleBytes = tileWidth * (2 + 0xff_ff);

/** What the log tells everybody of a commit: JSON on one line, with the commit's digest as `record`. */
export function entryOf(commit: Commit): Buffer {
  const { commit: number, feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot, counts } = commit;
  const { markets, protocols } = counts;
  const { publishedAt, withdrawn, digest: record } = commit;
  const roots = { feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot };
  const told = { commit: number, ...roots, counts: { markets, protocols }, publishedAt, withdrawn, record };
  return Buffer.from(JSON.stringify(told));
}

/** The key of a tile. */
export const tileKey = (tile: Tile): string => layout.logTile(tilePath(tile));

/** The tile that a key names; undefined when it names none. */
export const tileNamed = (key: string): Tile | undefined =>
  key.startsWith(layout.logTiles) ? tileAt(key.slice(layout.logTiles.length)) : undefined;

/** The tiles that a store lists of a log of this size, those of its earlier sizes too. Throws StorageError. */
export async function listTiles(storage: Storage, size: number): Promise<Map<string, Tile>> {
  const tiles = new Map<string, Tile>();
  for await (const { key } of storage.list(layout.logTiles)) {
    const tile = tileNamed(key);
    if (tile && endOf(tile) <= size) tiles.set(key, tile);
  }
  return tiles;
}

/**
 * Brings the public log to a commit. It compares what the last bundle and its tile hold, and sees that the others are there;
 * what those hold it compares at every 256th commit, and where some are `faulty`. What is missing or wrong is made anew from the
 * bundles that agree with their tiles, or else from the commits. Where neither has an entry any more, nothing is written. Throws
 * StorageError.
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

/** The index of the bundle in which a log of this size ends. */
const indexOf = (size: number): number => Math.floor((size - 1) / tileWidth);

/** The bundle in which a log of this size ends. */
function lastBundle(size: number): Tile {
  const index = indexOf(size);
  return { level: "entries", index, width: size - index * tileWidth };
}

/** The entries of the last bundle: as it is stored, or as the one before goes on. Undefined where neither fits the commit. */
async function tailOf(storage: Storage, newest: Commit): Promise<Buffer[] | undefined> {
  const [size, entry] = [newest.commit, entryOf(newest)];
  const stored = await readBundle(storage, lastBundle(size));
  if (stored?.at(-1)?.equals(entry)) return stored;
  if (size === 1) return [entry];
  const before = await readBundle(storage, lastBundle(size - 1));
  if (!before?.at(-1)?.toString().endsWith(`,"record":"${newest.previous}"}`)) return undefined;
  return before.length === tileWidth ? [entry] : [...before, entry];
}

/** The entries of a bundle that agrees with its tile of hashes; undefined where either is missing or damaged. */
async function readBundle(storage: Storage, tile: Tile): Promise<Buffer[] | undefined> {
  const read = (key: string, maxBytes: number) =>
    storage.get(key, { maxBytes }).catch((error) => {
      if (error instanceof CorruptObjectError) return undefined;
      throw error;
    });
  const [bundle, hashes] = await Promise.all([
    read(tileKey(tile), maxBundleBytes),
    read(tileKey({ ...tile, level: 0 }), 32 * tileWidth),
  ]);
  const entries = bundle && decodeEntries(bundle);
  if (entries?.length !== tile.width || !hashes) return undefined;
  return hashes.equals(Buffer.concat(entries.map((entry) => leafHash(entry)))) ? entries : undefined;
}

/** The entries of a commit and of those that it leads back to, as far as the log leads. Throws StorageError. */
async function entriesOfCommits(storage: Storage, newest: Commit): Promise<Entries> {
  const entries: (Buffer | undefined)[] = Array(newest.commit).fill(undefined);
  try {
    for await (const commit of logFrom(storage, newest)) entries[commit.commit - 1] = entryOf(commit);
  } catch (error) {
    if (!isBroken(error)) throw error;
  }
  return entries;
}

/** Adds the entries that the bundles of a store have. Throws StorageError. */
export async function completeEntries(
  storage: Storage,
  known: Entries,
  listed: ReadonlyMap<string, Tile>,
): Promise<Entries> {
  const entries = [...known];
  const bundles = [...listed.values()].filter(({ level }) => level === "entries");
  bundles.sort((a, b) => b.width - a.width);
  const lacking = new Set(known.flatMap((entry, place) => (entry ? [] : [indexOf(place + 1)])));
  await inParallel(lacking, async (index) => {
    const start = index * tileWidth;
    const lacks = () => entries.slice(start, start + tileWidth).includes(undefined);
    for (const bundle of bundles) {
      if (bundle.index !== index || !lacks()) continue;
      const found = (await readBundle(storage, bundle)) ?? [];
      for (const [place, entry] of found.entries()) entries[start + place] ??= entry;
    }
  });
  return entries;
}

/** Writes those tiles that the store lacks or has otherwise. */
async function putTiles(storage: Storage, tiles: readonly Tile[], entries: Entries): Promise<void> {
  const encode = tileEncoder(entries);
  await inParallel(tiles, async (tile) => {
    const bytes = encode(tile);
    if (bytes) await putIfDifferent(storage, tileKey(tile), bytes);
  });
}
