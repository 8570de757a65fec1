import {
  besideFirst,
  besideLeaf,
  type ReadTile,
  spanOf,
  type Tile,
  tileProofsOf,
  tileWidth,
} from "./log-tiles.ts";
import { type Digest, leafHash, nodeHash, treeHead } from "./tree.ts";

// RFC 6962's tree over the leaf hashes of a log's entries.

/** Grows leaf by leaf. Keeps only the heads of its full subtrees, one for each bit of its size. */
export class GrowingTree {
  /** From the smallest subtree, which has the newest leaves, to the largest. */
  #heads: Buffer[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(leaf: Buffer): void {
    let head = leaf;
    for (let rest = this.#size; rest % 2 === 1; rest = (rest - 1) / 2)
      head = nodeHash(this.#heads.shift()!, head);
    this.#heads.unshift(head);
    this.#size += 1;
  }

  /** The head of the empty tree before the first leaf. */
  head(): Buffer {
    const [smallest, ...larger] = this.#heads;
    return smallest ? larger.reduce((right, left) => nodeHash(left, right), smallest) : treeHead([]);
  }
}

export interface TreeHead {
  size: number;
  head: Buffer;
}

/** By position; undefined where an entry is not known. */
export type Entries = readonly (Buffer | undefined)[];

/** Undefined where an entry of the tile, or the hash of one, is not known. */
export function tileEncoder(
  entries: Entries,
  leaves: Entries = entries.map((entry) => entry && leafHash(entry)),
): (tile: Tile) => Buffer | undefined {
  const known = (values: Entries, start: number, count: number) => {
    const found = values.slice(start, start + count).filter((value) => value !== undefined);
    return found.length === count ? found : undefined;
  };
  return (tile) => {
    const span = spanOf(tile);
    const start = tile.index * tileWidth * span;
    const below = known(tile.level === "entries" ? entries : leaves, start, tile.width * span);
    if (!below || tile.level === "entries") return below && encodeEntries(below);
    return Buffer.concat(
      Array.from({ length: tile.width }, (_, position) =>
        treeHead(below.slice(position * span, (position + 1) * span)),
      ),
    );
  };
}

/** Each entry after its length, a big-endian uint16. Throws RangeError when an entry has more than 65,535 bytes. */
export function encodeEntries(entries: readonly Buffer[]): Buffer {
  return Buffer.concat(
    entries.flatMap((entry) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(entry.length);
      return [length, entry];
    }),
  );
}

const asDigest = ({ buffer, byteOffset, length }: Uint8Array) => Buffer.from(buffer, byteOffset, length);

export const { headsOf, headsFromPath, headsFromTiles } = tileProofsOf<Digest>(
  { nodeHash, treeHead },
  asDigest,
);

/** The head of the tree of the first `size` leaves. */
export async function headFromTiles(readTile: ReadTile, size: number): Promise<Digest> {
  const [head] = await headsOf(readTile, size, [{ start: 0, count: size }]);
  return head!;
}

/** From the bottom up. */
export async function inclusionFromTiles(readTile: ReadTile, index: number, size: number): Promise<Digest[]> {
  return headsOf(readTile, size, besideLeaf(index, size));
}

/** Shows that the first `first` leaves are the beginning of the first `size`. */
export async function consistencyFromTiles(
  readTile: ReadTile,
  first: number,
  size: number,
): Promise<Digest[]> {
  return headsOf(readTile, size, besideFirst(first, size, true));
}

/** The hashes of the leaves at these places of a log. */
export async function leavesFromTiles(
  readTile: ReadTile,
  places: readonly number[],
  size: number,
): Promise<Digest[]> {
  return headsOf(
    readTile,
    size,
    places.map((start) => ({ start, count: 1 })),
  );
}
