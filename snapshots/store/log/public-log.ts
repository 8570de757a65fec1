import type { Commit } from "../../../schemas/store/snapshot.ts";
import {
  consistencyFromTiles,
  inclusionFromTiles,
  type ReadTile,
  TileError,
} from "../../format/log-proofs.ts";
import { decodeEntries, endOf, type Tile, tileAt, tilePath, tileWidth } from "../../format/log-tiles.ts";
import { type Entries, isConsistent, type TreeHead } from "../../format/log-tree.ts";
import { leafHash, nodeHash, treeHead } from "../../format/tree.ts";
import { CorruptObjectError, ObjectError, unless } from "../errors.ts";
import { inParallel } from "../in-parallel.ts";
import { layout } from "../layout.ts";
import type { Storage } from "../storage.ts";
import { logFrom } from "./commit-chain.ts";

/** Room for a bundle of the longest entries. */
const maxBundleBytes = tileWidth * (2 + 0xff_ff);

/** What the public log says of a commit: JSON on one line, with the commit's digest as `record`. */
export function entryOf(commit: Commit): Buffer {
  const { commit: number, feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot, counts } = commit;
  const { markets, protocols } = counts;
  const { publishedAt, withdrawn, digest: record } = commit;
  const roots = { feedVersion, snapshotId, archiveRoot, scoresRoot, indexRoot };
  const told = { commit: number, ...roots, counts: { markets, protocols }, publishedAt, withdrawn, record };
  return Buffer.from(JSON.stringify(told));
}

export const tileKey = (tile: Tile): string => layout.logTile(tilePath(tile));

/** Undefined for any other key. */
export const tileNamed = (key: string): Tile | undefined =>
  key.startsWith(layout.logTile.prefix) ? tileAt(key.slice(layout.logTile.prefix.length)) : undefined;

/** Includes tiles that the log had at earlier sizes. */
export async function listTiles(storage: Storage, size: number): Promise<Map<string, Tile>> {
  const keys: string[] = [];
  for await (const { key } of storage.list(layout.logTile.prefix)) keys.push(key);
  return tilesAmong(keys, size);
}

export function tilesAmong(keys: readonly string[], size: number): Map<string, Tile> {
  const tiles = new Map<string, Tile>();
  for (const key of keys) {
    const tile = tileNamed(key);
    if (tile && endOf(tile) <= size) tiles.set(key, tile);
  }
  return tiles;
}

/** The index of the bundle in which a log of this size ends. */
export const indexOf = (size: number): number => Math.floor((size - 1) / tileWidth);

/** The bundle in which a log of this size ends. */
export function lastBundle(size: number): Tile {
  const index = indexOf(size);
  return { level: "entries", index, width: size - index * tileWidth };
}

/** Nobody has checked these entries. Undefined where the bundle is missing or damaged. */
export async function readEntries(storage: Storage, tile: Tile): Promise<Buffer[] | undefined> {
  const read = () => storage.get(tileKey(tile), { maxBytes: maxBundleBytes });
  const bundle = await unless(CorruptObjectError, read);
  const entries = bundle && decodeEntries(bundle);
  return entries?.length === tile.width ? entries : undefined;
}

/** The tile of the hashes of a bundle's entries: its key and its bytes. */
export function hashesOf(tile: Tile, entries: readonly Buffer[]): [key: string, hashes: Buffer] {
  return [tileKey({ ...tile, level: 0 }), Buffer.concat(entries.map((entry) => leafHash(entry)))];
}

/** Undefined where the bundle or its tile of hashes is missing or damaged, or they disagree. */
async function readBundle(storage: Storage, tile: Tile): Promise<Buffer[] | undefined> {
  const [entries, hashes] = await Promise.all([
    readEntries(storage, tile),
    tilesIn(storage)(0, tile.index, tile.width),
  ]);
  return entries && hashes && hashesOf(tile, entries)[1].equals(hashes) ? entries : undefined;
}

/** The entries of `newest` and of the commits before it, as far as the log leads. */
export async function entriesOfCommits(storage: Storage, newest: Commit): Promise<Entries> {
  const entries: (Buffer | undefined)[] = Array(newest.commit).fill(undefined);
  await unless(ObjectError, async () => {
    for await (const commit of logFrom(storage, newest)) entries[commit.commit - 1] = entryOf(commit);
  });
  return entries;
}

/** Fills in entries from the bundles of a store. */
export async function completeEntries(
  storage: Storage,
  known: Entries,
  listed: ReadonlyMap<string, Tile>,
): Promise<Entries> {
  const entries = [...known];
  const bundles = [...listed.values()].filter(({ level }) => level === "entries");
  bundles.sort((a, b) => b.width - a.width);
  const lacking = new Set(known.flatMap((entry, position) => (entry ? [] : [indexOf(position + 1)])));
  await inParallel(lacking, async (index) => {
    const start = index * tileWidth;
    const lacks = () => entries.slice(start, start + tileWidth).includes(undefined);
    for (const bundle of bundles) {
      if (bundle.index !== index || !lacks()) continue;
      const found = (await readBundle(storage, bundle)) ?? [];
      for (const [position, entry] of found.entries()) entries[start + position] ??= entry;
    }
  });
  return entries;
}

/** A damaged tile counts as missing. */
export const tilesIn =
  (storage: Storage): ReadTile =>
  (level, index, width) =>
    unless(CorruptObjectError, () =>
      storage.get(tileKey({ level, index, width }), { maxBytes: 32 * tileWidth }),
    );

/** Derives the last tile from `tail`, the entries in which a log of this size ends. */
const tilesBefore =
  (storage: Storage, size: number, tail: readonly Buffer[]): ReadTile =>
  async (level, index, width) =>
    level === 0 && index === indexOf(size) && width === tail.length
      ? hashesOf(lastBundle(size), tail)[1]
      : tilesIn(storage)(level, index, width);

/** Whether the tiles show one tree to be the beginning of another. */
export async function tilesConnect(storage: Storage, before: TreeHead, after: TreeHead): Promise<boolean> {
  if (before.size >= after.size) return before.size === after.size && before.head.equals(after.head);
  const path = await unless(TileError, () => consistencyFromTiles(tilesIn(storage), before.size, after.size));
  return path !== undefined && isConsistent(before, after, path);
}

/**
 * The tree of the log up to a commit, which vouches for it: its entry is the last leaf, and its `tree` is the head over
 * those before. What tiles do not tell follows from the commits.
 */
export class LogTree implements TreeHead {
  readonly size: number;
  readonly head: Buffer;
  readonly #storage: Storage;
  readonly #commit: Commit;

  private constructor(storage: Storage, commit: Commit, head: Buffer) {
    this.#storage = storage;
    this.#commit = commit;
    this.size = commit.commit;
    this.head = head;
  }

  /** Throws CorruptObjectError when neither tiles nor commits give the tree that the commit names. */
  static async upTo(storage: Storage, commit: Commit): Promise<LogTree> {
    const tree = (await LogTree.fromTiles(storage, commit)) ?? (await LogTree.#fromCommits(storage, commit));
    if (tree) return tree;
    const reason =
      `the log before commit ${commit.commit} is gone or altered; put ${layout.commit.prefix} or ` +
      `${layout.logTile.prefix} back`;
    throw new CorruptObjectError(layout.commit(commit.commit), reason);
  }

  /**
   * By tiles alone; undefined when they do not give the tree. With `tail`, the entries in which the log ends, the tile
   * of their hashes is not read.
   */
  static async fromTiles(
    storage: Storage,
    commit: Commit,
    tail?: readonly Buffer[],
  ): Promise<LogTree | undefined> {
    const { commit: size } = commit;
    const tiles = tail ? tilesBefore(storage, size, tail) : tilesIn(storage);
    const beside = await unless(TileError, () => inclusionFromTiles(tiles, size - 1, size));
    if (!beside) return undefined;
    // The nodes beside the last leaf are the heads of everything before it.
    const [smallest, ...larger] = beside;
    const join = (right: Buffer, left: Buffer) => nodeHash(left, right);
    const before = smallest ? larger.reduce(join, smallest) : treeHead([]);
    if (before.toString("hex") !== commit.tree) return undefined;
    return new LogTree(storage, commit, beside.reduce(join, leafHash(entryOf(commit))));
  }

  static async #fromCommits(storage: Storage, commit: Commit): Promise<LogTree | undefined> {
    const leaves = await leavesUpTo(storage, commit);
    return leaves && new LogTree(storage, commit, treeHead(leaves));
  }

  async beginsWith(before: TreeHead): Promise<boolean> {
    if (before.size === this.size - 1) return before.head.toString("hex") === this.#commit.tree;
    if (await tilesConnect(this.#storage, before, this)) return true;
    if (before.size >= this.size) return false;
    const leaves = await leavesUpTo(this.#storage, this.#commit);
    return leaves !== undefined && treeHead(leaves.slice(0, before.size)).equals(before.head);
  }
}

/** Undefined where some are gone, or the commit names another tree. */
export async function leavesUpTo(storage: Storage, commit: Commit): Promise<Buffer[] | undefined> {
  const { commit: size } = commit;
  const known = await entriesOfCommits(storage, commit);
  const listed = known.includes(undefined) ? await listTiles(storage, size) : new Map();
  const leaves = (await completeEntries(storage, known, listed)).flatMap((entry) =>
    entry ? [leafHash(entry)] : [],
  );
  if (leaves.length < size) return undefined;
  return treeHead(leaves.slice(0, -1)).toString("hex") === commit.tree ? leaves : undefined;
}
