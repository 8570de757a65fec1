import {
  consistencyFromTiles,
  headsFromPath,
  type TreeHead,
  treeHead,
} from "../../../snapshots/format/tree.ts";

/** Whether `path` shows `before` to be the beginning of `after`. */
export function isConsistent(before: TreeHead, after: TreeHead, path: readonly Buffer[]): boolean {
  if (!(before.size >= 1 && before.size <= after.size)) return false;
  const [first, whole] = headsFromPath(before.size, after.size, path, before.head) ?? [];
  return first?.equals(before.head) === true && whole?.equals(after.head) === true;
}

/** The hashes that show the first of some leaves to be their beginning, by the tiles of a log of them. */
export function consistencyPath(leaves: readonly Buffer[], first: number): Promise<Buffer[]> {
  const readTile = async (level: number, index: number, width: number) => {
    const each = 256 ** level;
    const headAt = (place: number) => treeHead(leaves.slice(place * each, (place + 1) * each));
    return Buffer.concat(Array.from({ length: width }, (_, n) => headAt(256 * index + n)));
  };
  return consistencyFromTiles(readTile, first, leaves.length);
}
