import { type Tile, tilePath, tileWidth } from "./log-tree.ts";
import { leftSize, nodeHash, treeHead } from "./tree.ts";

// Proofs of a log's tree, put together from the tiles of c2sp.org/tlog-tiles. No tile is believed: whoever checks a
// proof does so against the signed head.

const hashBytes = 32;
/** Entries of a log at most: halves are found by operations on 32 bits. */
const maxEntries = 2 ** 31;

/** Reads the first `width` hashes of a tile, 32 bytes each; resolves to undefined where that tile is not stored. */
export type ReadTile = (level: number, index: number, width: number) => Promise<Uint8Array | undefined>;

/** A tile that is missing or of another length. */
export class TileError extends Error {
  override name = "TileError";

  constructor(tile: Tile, fault: string) {
    super(`Tile ${tilePath(tile)} of the log ${fault}.`);
  }
}

/** Consecutive leaves below one node of a tree. */
interface Span {
  start: number;
  count: number;
}

/** The head of the tree of the first `size` leaves. Throws TileError, RangeError and what `readTile` throws. */
export async function headFromTiles(readTile: ReadTile, size: number): Promise<Buffer> {
  const [head] = await headsOf(readTile, size, [{ start: 0, count: size }]);
  return head!;
}

/**
 * The audit path of the leaf at `index` in the tree of the first `size` leaves, from the bottom up. Throws as
 * headFromTiles.
 */
export async function inclusionFromTiles(readTile: ReadTile, index: number, size: number): Promise<Buffer[]> {
  if (!(Number.isInteger(index) && index >= 0 && index < size))
    throw new RangeError(`A log of ${size} has no entry ${index}.`);
  return headsOf(readTile, size, besideLeaf(index, { start: 0, count: size }));
}

/** The path that shows the first `first` leaves to be the beginning of the first `size`. Throws as headFromTiles. */
export async function consistencyFromTiles(
  readTile: ReadTile,
  first: number,
  size: number,
): Promise<Buffer[]> {
  if (!(Number.isInteger(first) && first >= 1 && first <= size))
    throw new RangeError(`A log of ${size} does not begin with one of ${first}.`);
  return headsOf(readTile, size, besideFirst(first, { start: 0, count: size }, true));
}

function halves({ start, count }: Span): [left: Span, right: Span] {
  const split = leftSize(count);
  return [
    { start, count: split },
    { start: start + split, count: count - split },
  ];
}

/** The nodes beside the way from a leaf to the top (RFC 6962, 2.1.1). */
function besideLeaf(index: number, tree: Span): Span[] {
  if (tree.count === 1) return [];
  const [left, right] = halves(tree);
  return index < right.start ? [...besideLeaf(index, left), right] : [...besideLeaf(index, right), left];
}

/** The nodes of which the trees of the first `end` leaves and of all consist (RFC 6962, 2.1.2). */
function besideFirst(end: number, tree: Span, whole: boolean): Span[] {
  if (end === tree.start + tree.count) return whole ? [] : [tree];
  const [left, right] = halves(tree);
  return end <= right.start
    ? [...besideFirst(end, left, whole), right]
    : [...besideFirst(end, right, false), left];
}

/** The heads of nodes of the tree of `size` leaves. Each tile is read once: at most two a level. */
async function headsOf(readTile: ReadTile, size: number, nodes: readonly Span[]): Promise<Buffer[]> {
  if (!(Number.isInteger(size) && size >= 1 && size <= maxEntries))
    throw new RangeError(`A log has from 1 to ${maxEntries} entries, not ${size}.`);
  const tiles = new Map<string, Promise<Buffer>>();
  const tileOf = (level: number, index: number) => {
    const count = Math.floor(size / tileWidth ** level);
    const tile = { level, index, width: Math.min(tileWidth, count - index * tileWidth) };
    const key = tilePath(tile);
    const read = tiles.get(key) ?? completeTile(readTile, tile);
    tiles.set(key, read);
    return read;
  };
  /** The head of 2 ** height leaves, which are a node of one tile. */
  const headOfFull = async (start: number, height: number) => {
    const level = Math.floor(height / 8);
    const [position, count] = [start / tileWidth ** level, 2 ** (height % 8)];
    const tile = await tileOf(level, Math.floor(position / tileWidth));
    const from = (position % tileWidth) * hashBytes;
    return treeHead(
      Array.from({ length: count }, (_, n) =>
        tile.subarray(from + n * hashBytes, from + (n + 1) * hashBytes),
      ),
    );
  };
  const headOf = async ({ start, count }: Span): Promise<Buffer> => {
    const height = 31 - Math.clz32(count);
    if (2 ** height === count) return headOfFull(start, height);
    const [left, right] = halves({ start, count });
    return nodeHash(...(await Promise.all([headOf(left), headOf(right)])));
  };
  return Promise.all(nodes.map(headOf));
}

/** The hashes of a tile. Those of a partial tile that is no longer stored are the beginning of the full one. */
async function completeTile(readTile: ReadTile, tile: Tile & { level: number }): Promise<Buffer> {
  const { level, index, width } = tile;
  const bytes =
    (await readTile(level, index, width)) ??
    (width < tileWidth ? await readTile(level, index, tileWidth) : undefined);
  if (!bytes) throw new TileError(tile, "is missing");
  const wanted = [width, tileWidth].map((hashes) => hashes * hashBytes);
  if (!wanted.includes(bytes.length)) throw new TileError(tile, `has ${bytes.length} bytes`);
  return Buffer.from(bytes.buffer, bytes.byteOffset, width * hashBytes);
}
