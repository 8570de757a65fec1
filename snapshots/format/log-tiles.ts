import { hashBytes, hashesIn, leftSize, type Trees } from "./hash-trees.ts";

// A log's tree and entries in the parts of c2sp.org/tlog-tiles.

/** Hashes of a full tile, and entries of a full bundle. */
export const tileWidth = 256;

/** Hashes of a level, or the entries themselves. `width` is below 256 where the tree ends in the tile. */
export interface Tile {
  level: number | "entries";
  index: number;
  width: number;
}

/** Relative to `tile/`, such as `0/x001/234.p/5`. */
export function tilePath({ level, index, width }: Tile): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g)!;
  const last = groups.pop();
  const above = groups.map((group) => `x${group}/`).join("");
  return `${level}/${above}${last}${width < tileWidth ? `.p/${width}` : ""}`;
}

/** Undefined for any other path. */
export function tileAt(path: string): Tile | undefined {
  const [, level, index, width] =
    /^(entries|\d)\/((?:x\d{3}\/){0,4}\d{3})(?:\.p\/(\d{1,3}))?$/.exec(path) ?? [];
  if (level === undefined || index === undefined || width === "0") return undefined;
  const tile = {
    level: level === "entries" ? level : Number(level),
    index: Number(index.replaceAll(/\D/g, "")),
    width: width === undefined ? tileWidth : Number(width),
  } as const;
  return tilePath(tile) === path ? tile : undefined;
}

export function tilesOf(size: number): Tile[] {
  const tiles = levelOf("entries", size);
  let hashes = size;
  for (let level = 0; hashes > 0; level += 1) {
    tiles.push(...levelOf(level, hashes));
    hashes = Math.floor(hashes / tileWidth);
  }
  return tiles;
}

function levelOf(level: Tile["level"], count: number): Tile[] {
  return Array.from({ length: Math.ceil(count / tileWidth) }, (_, index) => ({
    level,
    index,
    width: Math.min(tileWidth, count - index * tileWidth),
  }));
}

/** Entries that each element of a tile covers. */
export const spanOf = ({ level }: Tile): number => (level === "entries" ? 1 : tileWidth ** level);

/** The size of the smallest tree that has this tile. */
export function endOf(tile: Tile): number {
  return (tile.index * tileWidth + tile.width) * spanOf(tile);
}

/** Undefined when the bundle ends within an entry. */
export function decodeEntries<Bytes extends Uint8Array>(bundle: Bytes): Bytes[] | undefined {
  const entries: Bytes[] = [];
  for (let at = 0; at < bundle.length; ) {
    const start = at + 2;
    at = start + 256 * bundle[at]! + Number(bundle[at + 1]);
    // `at` is NaN where the length is cut off.
    if (!(at <= bundle.length)) return undefined;
    entries.push(bundle.subarray(start, at) as Bytes);
  }
  return entries;
}

// Builds proofs of a log's tree from the tiles of c2sp.org/tlog-tiles. No tile is trusted: proofs are checked against
// the signed head.

/** Halves are found by operations on 32 bits. */
const maxEntries = 2 ** 31;

/** Reads the first `width` hashes of a tile, 32 bytes each; undefined where that tile is not stored. */
export type ReadTile = (level: number, index: number, width: number) => Promise<Uint8Array | undefined>;

/** A tile is missing or has another length. */
export class TileError extends Error {
  override name = "TileError";

  constructor(tile: Tile, fault: string) {
    super(`Tile ${tilePath(tile)} of the log ${fault}.`);
  }
}

/** Consecutive leaves below one node. */
interface Span {
  start: number;
  count: number;
}

function halves({ start, count }: Span): [left: Span, right: Span] {
  const split = leftSize(count);
  return [
    { start, count: split },
    { start: start + split, count: count - split },
  ];
}

/** The nodes beside the way from a leaf to the top (RFC 6962, 2.1.1). */
export function besideLeaf(index: number, size: number, start: number = 0): Span[] {
  if (!(Number.isInteger(index) && index >= start && index < start + size))
    throw new RangeError(`A log of ${size} has no entry ${index}.`);
  if (size === 1) return [];
  const [left, right] = halves({ start, count: size });
  const [within, beside] = index < right.start ? [left, right] : [right, left];
  return [...besideLeaf(index, within.count, within.start), beside];
}

/**
 * The nodes of which the trees of the first `end` leaves and of all consist (RFC 6962, 2.1.2). With `known`, the head
 * of the first ones is left out where it is a node.
 */
export function besideFirst(end: number, size: number, known: boolean, start: number = 0): Span[] {
  if (!(Number.isInteger(end) && end > start && end <= start + size))
    throw new RangeError(`A log of ${size} does not begin with one of ${end}.`);
  if (end === start + size) return known ? [] : [{ start, count: size }];
  const [left, right] = halves({ start, count: size });
  return end <= right.start
    ? [...besideFirst(end, left.count, known, start), right]
    : [...besideFirst(end, right.count, false, right.start), left];
}

type BothHeads<H> = [before: H, after: H];

export function tileProofsOf<H>(
  { nodeHash, treeHead }: Pick<Trees<H>, "nodeHash" | "treeHead">,
  asHash: (stored: Uint8Array) => H,
) {
  /** Reads each tile once, at most two a level. */
  const headsOf = async (readTile: ReadTile, size: number, nodes: readonly Span[]): Promise<Awaited<H>[]> => {
    if (!(Number.isInteger(size) && size >= 1 && size <= maxEntries))
      throw new RangeError(`A log has from 1 to ${maxEntries} entries, not ${size}.`);
    const tiles = new Map<string, Promise<Uint8Array>>();
    const tileOf = (level: number, index: number) => {
      const count = Math.floor(size / tileWidth ** level);
      const tile = { level, index, width: Math.min(tileWidth, count - index * tileWidth) };
      const key = tilePath(tile);
      const read = tiles.get(key) ?? completeTile(readTile, tile);
      tiles.set(key, read);
      return read;
    };
    const headOf = async ({ start, count }: Span): Promise<Awaited<H>> => {
      const height = 31 - Math.clz32(count);
      if (2 ** height !== count) {
        const [left, right] = await Promise.all(halves({ start, count }).map(headOf));
        return await nodeHash(left!, right!);
      }
      // The head of a full tree is a node of one tile.
      const level = Math.floor(height / 8);
      const position = start / tileWidth ** level;
      const tile = await tileOf(level, Math.floor(position / tileWidth));
      const from = (position % tileWidth) * hashBytes;
      return await treeHead(hashesIn(tile.subarray(from, from + 2 ** (height % 8) * hashBytes)).map(asHash));
    };
    return Promise.all(nodes.map(headOf));
  };

  /**
   * Follows a consistency path from the first `first` leaves to all `size`. `omitted` is the head that the path leaves
   * out. Undefined when a path of this length does not lead there.
   */
  const headsFromPath = (
    first: number,
    size: number,
    path: readonly H[],
    omitted?: H,
  ): BothHeads<H> | undefined => {
    const rest = [...path];
    const headsOfBoth = (first: number, size: number, omitted: H | undefined): BothHeads<H> | undefined => {
      if (first === size) {
        const head = omitted ?? rest.pop();
        return head && [head, head];
      }
      const split = leftSize(size);
      const top = rest.pop();
      if (!top) return undefined;
      if (first <= split) {
        const heads = headsOfBoth(first, split, omitted);
        return heads && [heads[0], nodeHash(heads[1], top)];
      }
      const heads = headsOfBoth(first - split, size - split, undefined);
      return heads && [nodeHash(top, heads[0]), nodeHash(top, heads[1])];
    };
    const heads = headsOfBoth(first, size, omitted);
    return rest.length === 0 ? heads : undefined;
  };

  /**
   * The heads of the first `first` leaves, at least one, and of all `size`. Both consist of the same nodes, so whoever
   * knows the second one need not trust the tiles for the first.
   */
  const headsFromTiles = async (readTile: ReadTile, first: number, size: number) => {
    const path = await headsOf(readTile, size, besideFirst(first, size, false));
    return Promise.all(headsFromPath(first, size, path as H[])!);
  };

  return { headsOf, headsFromPath, headsFromTiles };
}

/** A partial tile that is no longer stored is the beginning of the full one. */
async function completeTile(readTile: ReadTile, tile: Tile & { level: number }): Promise<Uint8Array> {
  const { level, index, width } = tile;
  const bytes =
    (await readTile(level, index, width)) ??
    (width < tileWidth ? await readTile(level, index, tileWidth) : undefined);
  if (!bytes) throw new TileError(tile, "is missing");
  if (bytes.length !== width * hashBytes && bytes.length !== tileWidth * hashBytes)
    throw new TileError(tile, `has ${bytes.length} bytes`);
  return bytes;
}
