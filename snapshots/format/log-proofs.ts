import type { Digest } from "./sha256.ts";
import { besideFirst, besideLeaf, type ReadTile, TileError, tileProofsOf } from "./tile-proofs.ts";
import { nodeHash, treeHead } from "./tree.ts";

export { type ReadTile, TileError };

const asDigest = ({ buffer, byteOffset, length }: Uint8Array) => Buffer.from(buffer, byteOffset, length);

const { headsOf, headsFromPath, headsFromTiles } = tileProofsOf<Digest>({ nodeHash, treeHead }, asDigest);

export { headsFromPath, headsFromTiles };

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
