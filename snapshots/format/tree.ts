import { type Digest, digestFrom, digestOf } from "./sha256.ts";

// The input of a hash is put together here: a buffer for each of millions would keep the garbage collector busy.
let together = new Uint8Array(64 * 1024);

/** The SHA-256 over consecutive bytes. */
function sha256(...parts: readonly Uint8Array[]): Digest {
  let end = 0;
  for (const part of parts) end += part.length;
  if (end > together.length) together = new Uint8Array(end);
  end = 0;
  for (const part of parts) {
    together.set(part, end);
    end += part.length;
  }
  return digestOf(together.subarray(0, end));
}

const digestBytes = 32;

// The input of a hash begins with a byte for its kind, so that no value of one kind can stand for another.
const [leafTag, nodeTag] = [Uint8Array.of(0), Uint8Array.of(1)];
/** The first byte of a sealed root, by the kind of its tree. */
const rootTags = { page: 2, segment: 3, archive: 4, scores: 5, index: 6, section: 7 } as const;

/** The hash of a text as a leaf of a tree. */
export function leafHash(text: Uint8Array): Digest {
  return sha256(leafTag, text);
}

/** The hash of an inner node with these two children. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Digest {
  return sha256(nodeTag, left, right);
}

/** The hash of the empty tree (RFC 6962, 2.1). */
const emptyTree = sha256();

/** The hash at the top of a tree of the shape of RFC 6962 over these hashes. */
export function treeHead(hashes: readonly Digest[]): Digest {
  if (hashes.length <= 1) return hashes[0] ?? emptyTree;
  const split = leftSize(hashes.length);
  return nodeHash(treeHead(hashes.slice(0, split)), treeHead(hashes.slice(split)));
}

/** The hashes that lead from the one at `index` to the head, from the bottom up (RFC 6962, 2.1.1). */
export function auditPath(hashes: readonly Digest[], index: number): Digest[] {
  if (hashes.length <= 1) return [];
  const split = leftSize(hashes.length);
  const [left, right] = [hashes.slice(0, split), hashes.slice(split)];
  return index < split
    ? [...auditPath(left, index), treeHead(right)]
    : [...auditPath(right, index - split), treeHead(left)];
}

/**
 * All hashes of the tree over these, one after the other: level by level from them up, where a hash without a neighbour
 * rises as it is.
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
  const bytes = new Uint8Array(all.length * digestBytes);
  all.forEach((hash, place) => {
    bytes.set(hash, place * digestBytes);
  });
  return bytes;
}

/** The audit path of the hash at `index` among `size`, as `auditPath` computes it, out of the levels of its tree. */
export function pathInLevels(levels: Uint8Array, index: number, size: number): Uint8Array[] {
  const path: Uint8Array[] = [];
  for (let start = 0; size > 1; [start, index, size] = [start + size, index >> 1, Math.ceil(size / 2)]) {
    const at = (start + (index ^ 1)) * digestBytes;
    if ((index ^ 1) < size) path.push(levels.subarray(at, at + digestBytes));
  }
  return path;
}

/**
 * The head of the tree of `size` hashes in which `hash` is the one at `index`, computed from its audit path. Undefined
 * when a path of this length does not belong there.
 */
export function headFrom(
  hash: Digest,
  { index, size, path }: { index: number; size: number; path: readonly Digest[] },
): Digest | undefined {
  if (!(index >= 0 && index < size)) return undefined;
  if (size === 1) return path.length === 0 ? hash : undefined;
  const [split, top] = [leftSize(size), path.at(-1)];
  if (!top) return undefined;
  const rest = path.slice(0, -1);
  const inLeft = index < split;
  const below = headFrom(
    hash,
    inLeft ? { index, size: split, path: rest } : { index: index - split, size: size - split, path: rest },
  );
  return below && (inLeft ? nodeHash(below, top) : nodeHash(top, below));
}

/** The largest power of two below `size`. */
export function leftSize(size: number): number {
  return 2 ** (31 - Math.clz32(size - 1));
}

/**
 * How many children a tree has, and how many markets (of a scores tree, lines; of a section, bytes) are below it in
 * all.
 */
export interface TreeSize {
  children: number;
  total: number;
}

/**
 * The root of a tree: the hash of its kind, its size and its head. The root thereby proves totals and positions too.
 */
export function rootOf(kind: keyof typeof rootTags, { children, total }: TreeSize, head: Uint8Array): Digest {
  const sizes = new DataView(new ArrayBuffer(16));
  sizes.setBigUint64(0, BigInt(total), true);
  sizes.setBigUint64(8, BigInt(children), true);
  return sha256(Uint8Array.of(rootTags[kind]), new Uint8Array(sizes.buffer), head);
}

/** The root of a page: a tree over the leaf hashes of its markets, from the oldest up. */
export function pageRootOf(leaves: readonly Digest[]): Digest {
  return rootOf("page", { children: leaves.length, total: leaves.length }, treeHead(leaves));
}

/** A subtree in hexadecimal, as page tables and manifests name it. */
export interface Subtree {
  root: string;
  markets: number;
}

/** The root of a segment over its pages, or of an archive or its index over its segments, from the oldest up. */
export function rootOver(kind: "segment" | "archive" | "index", subtrees: readonly Subtree[]): Digest {
  const total = subtrees.reduce((sum, { markets }) => sum + markets, 0);
  return rootOf(kind, { children: subtrees.length, total }, treeHead(subtrees.map(hashOf)));
}

const hashOf = ({ root }: Subtree): Digest => digestFrom(root);
