import { hashFrom } from "./bytes.ts";

// Trees of hashes, as snapshots/SPEC.md, "Roots", and RFC 6962 have them. Node hashes at once and Web Crypto by and by,
// so nothing here waits: what comes out of a hash function goes into the next one as it is.

/** Hashes consecutive bytes with SHA-256; some of them may be hashes that are still to come. */
export type HashOver<H> = (...parts: readonly (Uint8Array | H)[]) => H;

// The input of a hash is put together here: a buffer for each of millions would keep the garbage collector busy.
let together = new Uint8Array(2 ** 16);

/** Bytes one after the other, until the next call. */
export function joined(parts: readonly ArrayLike<number>[]): Uint8Array<ArrayBuffer> {
  let end = 0;
  for (const part of parts) end += part.length;
  if (end > together.length) together = new Uint8Array(end);
  end = 0;
  for (const part of parts) {
    together.set(part, end);
    end += part.length;
  }
  return together.subarray(0, end);
}

// The input of a hash begins with a byte for its kind, so that no value of one kind can stand for another.
const leafTag = Uint8Array.of(0);
const nodeTag = Uint8Array.of(1);
/** The first byte of a sealed root, by the kind of its tree. */
const rootTags = { page: 2, segment: 3, archive: 4, scores: 5, index: 6, section: 7 } as const;

/**
 * Where a hash stands in a tree, and the hashes that lead from it to the head, from the bottom up, as they are or in
 * hexadecimal.
 */
export interface Place {
  index: number;
  size: number;
  path: readonly (Uint8Array | string)[] | null;
}

/** The same with what the root covers: how many markets are below the tree, or other things. */
export type Level = Place & { markets: number };

/** The largest power of two below `size`. */
export function leftSize(size: number): number {
  return 2 ** (31 - Math.clz32(size - 1));
}

/** Whether somebody's number can be that of the things that there are. */
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

/** Bytes of a hash. */
export const hashBytes = 32;

/** The hashes that stand one after the other. */
export const hashesIn = (bytes: Uint8Array): Uint8Array[] =>
  Array.from({ length: bytes.length / hashBytes }, (_, place) =>
    bytes.subarray(place * hashBytes, (place + 1) * hashBytes),
  );

/** What is computed of trees with a hash function. */
export type Trees<H> = ReturnType<typeof treesOf<H>>;

/** Computes trees with a hash function. */
export function treesOf<H>(sha256: HashOver<H>) {
  /** The hash of a text as a leaf of a tree. */
  const leafHash = (text: Uint8Array): H => sha256(leafTag, text);

  /** The hash of an inner node with these two children. */
  const nodeHash = (left: Uint8Array | H, right: Uint8Array | H): H => sha256(nodeTag, left, right);

  /** The hash at the top of a tree of the shape of RFC 6962 over these hashes. */
  const treeHead = (hashes: readonly H[]): H => {
    if (hashes.length <= 1) return hashes[0] ?? sha256();
    const split = leftSize(hashes.length);
    return nodeHash(treeHead(hashes.slice(0, split)), treeHead(hashes.slice(split)));
  };

  /**
   * The head of the tree in which `hash` stands at a place, computed from its audit path. Undefined when a path of this
   * length does not belong there, something in it is no hash, or no tree has such a place.
   */
  const headFrom = (hash: H, { index, size, path }: Place): H | undefined => {
    if (!(isCount(index) && isCount(size) && index < size && size <= 2 ** 32 && Array.isArray(path)))
      return undefined;
    let [head, at, last] = [hash, index, size - 1];
    for (const step of path) {
      const other = step instanceof Uint8Array ? step : hashFrom(step);
      if (last === 0 || !other) return undefined;
      const onRight = at % 2 === 1 || at === last;
      head = onRight ? nodeHash(other, head) : nodeHash(head, other);
      // One that has no neighbour moved up to a level where it has one.
      for (; onRight && at > 0 && at % 2 === 0; last >>>= 1) at >>>= 1;
      at >>>= 1;
      last >>>= 1;
    }
    return last === 0 ? head : undefined;
  };

  const sealed = (kind: keyof typeof rootTags, total: number, children: number, head: H): H => {
    const sizes = BigUint64Array.from([total, children], BigInt);
    return sha256(Uint8Array.of(rootTags[kind]), new Uint8Array(sizes.buffer), head);
  };

  /**
   * The root of a tree over these hashes: the hash of its kind, its size and its head. The root thereby proves totals
   * and positions too. `total` is how many markets (of a scores tree, lines; of a section, bytes) are below it in all.
   */
  const rootOf = (kind: keyof typeof rootTags, total: number, hashes: readonly H[]): H =>
    sealed(kind, total, hashes.length, treeHead(hashes));

  /** The root of the tree in which `hash` stands where an answer says; undefined when nothing can stand there. */
  const rootFrom = (kind: keyof typeof rootTags, hash: H, level: Level): H | undefined => {
    const head = isCount(level.markets) && headFrom(hash, level);
    return head ? sealed(kind, level.markets, level.size, head) : undefined;
  };

  return { leafHash, nodeHash, treeHead, headFrom, rootOf, rootFrom };
}
