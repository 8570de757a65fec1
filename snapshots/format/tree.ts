import { hash } from "node:crypto";
import { hashBytes, joined, treesOf } from "./hash-trees.ts";
import {
  besideFirst,
  besideLeaf,
  type ReadTile,
  spanOf,
  type Tile,
  tileProofsOf,
  tileWidth,
} from "./log-tiles.ts";

// The trees of hash-trees.ts, with the SHA-256 of Node.

/** 32 bytes. */
export type Digest = Buffer;

/** `hex` has 64 digits. */
export const digestFrom = (hex: string): Digest => Buffer.from(hex, "hex");

export const hexOf = (digest: Digest): string => digest.toString("hex");

/** 64 lower-case hex digits, by which stored objects are named. */
export const sha256 = (bytes: Uint8Array | string): string => hash("sha256", bytes, "hex");

export const { leafHash, nodeHash, treeHead, headFrom, rootOf } = treesOf<Digest>((...parts) =>
  hash("sha256", joined(parts), "buffer"),
);

/** From the bottom up (RFC 6962, 2.1.1). */
export function auditPath(hashes: readonly Digest[], index: number): Digest[] {
  return pathInLevels(treeLevels(hashes), index, hashes.length);
}

/** All hashes of the tree, level by level from the leaves up. A hash without a neighbour rises as it is. */
export function treeLevels(hashes: readonly Digest[]): Buffer {
  const all = [...hashes];
  for (let level = hashes; level.length > 1; ) {
    const below = level;
    level = Array.from({ length: Math.ceil(below.length / 2) }, (_, pair) => {
      const [left, right] = [below[2 * pair]!, below[2 * pair + 1]];
      return right ? nodeHash(left, right) : left;
    });
    all.push(...level);
  }
  return Buffer.concat(all);
}

/** An audit path out of the levels of a tree of `size` leaves. */
export function pathInLevels(levels: Buffer, index: number, size: number): Digest[] {
  const path: Digest[] = [];
  for (let start = 0; size > 1; [start, index, size] = [start + size, index >> 1, Math.ceil(size / 2)]) {
    const at = (start + (index ^ 1)) * hashBytes;
    if ((index ^ 1) < size) path.push(levels.subarray(at, at + hashBytes));
  }
  return path;
}

/** The root of a page: a tree over the leaf hashes of its markets, from the oldest up. */
export function pageRootOf(leaves: readonly Digest[]): Digest {
  return rootOf("page", leaves.length, leaves);
}

/** Hexadecimal, as page tables and manifests name it. */
export interface Subtree {
  root: string;
  markets: number;
}

/** The root of a segment over its pages, or of an archive or its index over its segments, from the oldest up. */
export function rootOver(kind: "segment" | "archive" | "index", subtrees: readonly Subtree[]): Digest {
  const total = subtrees.reduce((sum, { markets }) => sum + markets, 0);
  return rootOf(kind, total, subtrees.map(hashOf));
}

const hashOf = ({ root }: Subtree): Digest => digestFrom(root);

// RFC 6962's tree over the leaf hashes of a log's entries.

/** Grows leaf by leaf. Keeps only the heads of its full subtrees, one for each 1 among the bits of its size. */
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
  const sliceOf = (values: Entries, start: number, count: number) => {
    const slice = values.slice(start, start + count).filter((value) => value !== undefined);
    return slice.length === count ? slice : undefined;
  };
  return (tile) => {
    const span = spanOf(tile);
    const start = tile.index * tileWidth * span;
    const below = sliceOf(tile.level === "entries" ? entries : leaves, start, tile.width * span);
    if (!below || tile.level === "entries") return below && encodeEntries(below);
    return Buffer.concat(
      Array.from({ length: tile.width }, (_, position) =>
        treeHead(below.slice(position * span, (position + 1) * span)),
      ),
    );
  };
}

/** Each entry after its length, a big-endian uint16. */
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
