import { hash } from "node:crypto";
import { hashBytes, joined, leftSize, treesOf } from "./hash-trees.ts";

// All hashing in Node goes through here.

/** 32 bytes. */
export type Digest = Buffer;

const digestOf = (bytes: Uint8Array): Digest => hash("sha256", bytes, "buffer");

/** `hex` has 64 digits. */
export const digestFrom = (hex: string): Digest => Buffer.from(hex, "hex");

export const hexOf = (digest: Digest): string => digest.toString("hex");

/** 64 lower-case hex digits, by which stored objects are named. */
export const sha256 = (bytes: Uint8Array | string): string => hash("sha256", bytes, "hex");

export const { leafHash, nodeHash, treeHead, headFrom, rootOf } = treesOf<Digest>((...parts) =>
  digestOf(joined(parts)),
);

/** From the bottom up (RFC 6962, 2.1.1). */
export function auditPath(hashes: readonly Digest[], index: number): Digest[] {
  if (hashes.length <= 1) return [];
  const split = leftSize(hashes.length);
  const [left, right] = [hashes.slice(0, split), hashes.slice(split)];
  return index < split
    ? [...auditPath(left, index), treeHead(right)]
    : [...auditPath(right, index - split), treeHead(left)];
}

/**
 * All hashes of the tree one after the other, level by level from the leaves up. A hash without a neighbour rises as it
 * is.
 */
export function treeLevels(hashes: readonly Digest[]): Uint8Array {
  const all = [...hashes];
  for (let level = hashes; level.length > 1; ) {
    const below = level;
    level = Array.from({ length: Math.ceil(below.length / 2) }, (_, pair) => {
      const [left, right] = [below[2 * pair]!, below[2 * pair + 1]];
      return right ? nodeHash(left, right) : left;
    });
    all.push(...level);
  }
  const bytes = new Uint8Array(all.length * hashBytes);
  all.forEach((hash, place) => {
    bytes.set(hash, place * hashBytes);
  });
  return bytes;
}

/** Gives what auditPath computes, out of the levels of a tree of `size` leaves. */
export function pathInLevels(levels: Uint8Array, index: number, size: number): Uint8Array[] {
  const path: Uint8Array[] = [];
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
