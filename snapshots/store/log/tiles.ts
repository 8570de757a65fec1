import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { hashBytes } from "../../format/hash-trees.ts";
import {
  decodeEntries,
  endOf,
  type ReadTile,
  type Tile,
  TileError,
  tileAt,
  tilePath,
  tileWidth,
} from "../../format/log-tiles.ts";
import {
  type Entries,
  headsFromTiles,
  headsOf,
  leafHash,
  type TreeHead,
  tileEncoder,
  treeHead,
} from "../../format/tree.ts";
import { CorruptObjectError, ObjectError, unless } from "../errors.ts";
import { layout } from "../layout.ts";
import type { Storage } from "../storage.ts";
import { logFrom, readCommit } from "./commits.ts";

/** Room for a bundle of the longest entries. */
const maxBundleBytes = tileWidth * (2 + 0xff_ff);

/** What the public log says of a commit: its entry as JSON on one line, with the commit's digest as `record`. */
export function entryOf({ entry, digest }: Pick<Commit, "entry" | "digest">): Buffer {
  return Buffer.from(JSON.stringify({ ...entry, record: digest }));
}

export const tileKey = (tile: Tile): string => layout.logTile(tilePath(tile));

/** Undefined for any other key. */
export const tileNamed = (key: string): Tile | undefined =>
  layout.logTile.has(key) ? tileAt(layout.logTile.nameIn(key)) : undefined;

/** Those of a log of this size, also the partial ones that it had at earlier sizes. */
export function tilesAmong(keys: readonly string[], size: number): Map<string, Tile> {
  const tiles = new Map<string, Tile>();
  for (const key of keys) {
    const tile = tileNamed(key);
    if (tile && endOf(tile) <= size) tiles.set(key, tile);
  }
  return tiles;
}

/** The bundle in which a log of this size ends. */
export function lastBundle(size: number): Tile {
  const index = Math.floor((size - 1) / tileWidth);
  return { level: "entries", index, width: size - index * tileWidth };
}

/** The entries are not verified. Undefined where the bundle is missing or damaged. */
export async function readEntries(storage: Storage, tile: Tile): Promise<Buffer[] | undefined> {
  const read = () => storage.get(tileKey(tile), { maxBytes: maxBundleBytes });
  const bundle = await unless(CorruptObjectError, read);
  const entries = bundle && decodeEntries(bundle);
  return entries?.length === tile.width ? entries : undefined;
}

/** Tells whether a tile, or a bundle, is what these hashes of the log's entries give. */
export function tileCheck(leaves: Entries): (tile: Tile, bytes: Buffer) => boolean {
  const encode = tileEncoder([], leaves);
  return (tile, bytes) => {
    const isOfEntries = tile.level === "entries";
    const entries = isOfEntries ? decodeEntries(bytes) : undefined;
    // Otherwise the hashes of a tile would count as the bundle of their entries.
    if (isOfEntries && !entries) return false;
    const expected = encode(isOfEntries ? { ...tile, level: 0 } : tile);
    return expected?.equals(entries ? hashesOf(entries) : bytes) ?? false;
  };
}

/** The tile of the hashes of a bundle's entries. */
export const hashesOf = (entries: readonly Buffer[]): Buffer =>
  Buffer.concat(entries.map((entry) => leafHash(entry)));

/** A damaged tile counts as missing. */
export const tilesIn =
  (storage: Storage): ReadTile =>
  (level, index, width) =>
    unless(CorruptObjectError, () =>
      storage.get(tileKey({ level, index, width }), { maxBytes: hashBytes * tileWidth }),
    );

/**
 * The tiles of the log up to a commit, whose own entry is the last leaf: a run may have been killed before it wrote
 * them. `tail`, the entries in which the log ends, spares reading the tile of their hashes.
 */
function tilesUpTo(storage: Storage, commit: Commit, tail?: readonly Buffer[]): ReadTile {
  const stored = tilesIn(storage);
  const last = lastBundle(commit.entry.commit);
  const readLast = async (before: number): Promise<Uint8Array | undefined> => {
    if (before === 0) return Buffer.alloc(0);
    if (tail?.length === last.width) return hashesOf(tail);
    return (await stored(0, last.index, last.width)) ?? stored(0, last.index, before);
  };
  return async (level, index, width) => {
    if (level !== 0 || index !== last.index || width !== last.width) return stored(level, index, width);
    const hashes = await readLast(width - 1);
    return hashes && Buffer.concat([hashes.subarray(0, (width - 1) * hashBytes), leafHash(entryOf(commit))]);
  };
}

/** The entries of a commit and of those before it, as far as it leads back to them. */
export async function entriesUpTo(storage: Storage, newest: Commit): Promise<Entries> {
  const entries: (Buffer | undefined)[] = Array(newest.entry.commit).fill(undefined);
  await unless(ObjectError, async () => {
    for await (const commit of logFrom(storage, newest)) entries[commit.entry.commit - 1] = entryOf(commit);
  });
  return entries;
}

/**
 * The hashes of all entries. `ofCommits` are those that the commits tell, where they have been read. Where a commit is
 * gone, its entry's hash is taken from the tiles. Undefined when the hashes do not give the tree that `newest` names,
 * which vouches for all of them.
 */
export async function leavesOf(
  storage: Storage,
  newest: Commit,
  ofCommits?: Entries,
): Promise<Buffer[] | undefined> {
  const entries = ofCommits ?? (await entriesUpTo(storage, newest));
  const gone = [...entries.keys()].filter((place) => !entries[place]).map((start) => ({ start, count: 1 }));
  const tiles = tilesUpTo(storage, newest);
  const hashes = (await unless(TileError, () => headsOf(tiles, newest.entry.commit, gone)))?.values();
  if (!hashes) return undefined;
  const leaves = entries.map((entry) => (entry ? leafHash(entry) : hashes.next().value!));
  return treeHead(leaves.slice(0, -1)).toString("hex") === newest.tree ? leaves : undefined;
}

/**
 * The tree of a log. It is read from the tiles, for which the head vouches, or else from the commits, of which tiles
 * are made. `commit` is the last one of the log, when the head was computed from it.
 */
export class LogTree implements TreeHead {
  readonly size: number;
  readonly head: Buffer;
  readonly #storage: Storage;
  readonly #commit: Commit | undefined;

  constructor(storage: Storage, { size, head }: TreeHead, commit?: Commit) {
    this.#storage = storage;
    this.#commit = commit;
    this.size = size;
    this.head = head;
  }

  static async upTo(storage: Storage, commit: Commit): Promise<LogTree> {
    const byTiles = await LogTree.byTiles(storage, commit);
    if (byTiles) return byTiles;
    const size = commit.entry.commit;
    const leaves = await leavesOf(storage, commit);
    if (leaves) return new LogTree(storage, { size, head: treeHead(leaves) }, commit);
    const reason =
      `the log before commit ${size} is gone or altered; put ${layout.commit.prefix} or ` +
      `${layout.logTile.prefix} back, from a backup or older versions of the objects`;
    throw new CorruptObjectError(layout.commit(size), reason);
  }

  /** Undefined when tiles alone do not give the tree. `tail` as for `tilesUpTo`. */
  static async byTiles(storage: Storage, commit: Commit, tail?: readonly Buffer[]) {
    const size = commit.entry.commit;
    const tiles = tilesUpTo(storage, commit, tail);
    const [first, head] = (await unless(TileError, () => headsFromTiles(tiles, size - 1 || 1, size))) ?? [];
    const before = size === 1 ? treeHead([]) : first;
    if (!head || before?.toString("hex") !== commit.tree) return undefined;
    return new LogTree(storage, { size, head }, commit);
  }

  /**
   * The head that the log had at a size; undefined where neither tiles nor commits tell it, or it was never so long.
   */
  async headAt(size: number): Promise<Buffer | undefined> {
    if (size === this.size) return this.head;
    if (size < 1 || size > this.size) return undefined;
    if (this.#commit && size === this.size - 1) return Buffer.from(this.#commit.tree, "hex");
    const tiles = this.#commit ? tilesUpTo(this.#storage, this.#commit) : tilesIn(this.#storage);
    const [before, head] = (await unless(TileError, () => headsFromTiles(tiles, size, this.size))) ?? [];
    if (head?.equals(this.head)) return before;
    const read = () => readCommit(this.#storage, this.size);
    const commit = this.#commit ?? (await unless(CorruptObjectError, read));
    const leaves = commit && (await leavesOf(this.#storage, commit));
    return leaves && treeHead(leaves).equals(this.head) ? treeHead(leaves.slice(0, size)) : undefined;
  }
}
