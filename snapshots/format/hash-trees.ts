import type { CommitEntry } from "../../schemas/store/stored-objects.ts";
import { hashFrom } from "./bytes.ts";

// Trees of hashes as in RFC 6962 and in snapshots/SPEC.md, "Roots". Node hashes at once and Web Crypto returns
// promises, so nothing here awaits: the result of a hash function is passed to the next one as it is.

/** SHA-256 over the parts in order. A part may be the promise of a hash. */
type HashOver<H> = (...parts: readonly (Uint8Array | H)[]) => H;

// Inputs are joined in one buffer: a new one for each of millions would keep the garbage collector busy.
let together = new Uint8Array(2 ** 16);

/** Valid until the next call. */
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

// A first byte for the kind of input, so that no value of one kind can stand for another.
const leafTag = Uint8Array.of(0);
const nodeTag = Uint8Array.of(1);
/** The first byte of a sealed root, by the kind of its tree. */
const rootTags = { page: 2, segment: 3, archive: 4, scores: 5, index: 6, section: 7 } as const;

/** `path` leads from a hash at `index` to the head, from the bottom up, as bytes or in hexadecimal. */
export interface Place {
  index: number;
  size: number;
  path: readonly (Uint8Array | string)[] | null;
}

/** Also says how many markets (or bytes, or lines) are below the tree. */
type Level = Place & { markets: number };

/** The largest power of two below `size`. */
export function leftSize(size: number): number {
  return 2 ** (31 - Math.clz32(size - 1));
}

/** Whether an untrusted number can be a count. */
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

export const hashBytes = 32;

export const hashesIn = <Bytes extends Uint8Array>(bytes: Bytes): Bytes[] =>
  Array.from(
    { length: bytes.length / hashBytes },
    (_, place) => bytes.subarray(place * hashBytes, (place + 1) * hashBytes) as Bytes,
  );

export type Trees<H> = ReturnType<typeof treesOf<H>>;

export function treesOf<H>(sha256: HashOver<H>) {
  const leafHash = (text: Uint8Array): H => sha256(leafTag, text);

  const nodeHash = (left: Uint8Array | H, right: Uint8Array | H): H => sha256(nodeTag, left, right);

  /** RFC 6962. */
  const treeHead = (hashes: readonly H[]): H => {
    if (hashes.length <= 1) return hashes[0] ?? sha256();
    const split = leftSize(hashes.length);
    return nodeHash(treeHead(hashes.slice(0, split)), treeHead(hashes.slice(split)));
  };

  /**
   * Computes the head from a hash and its audit path. Undefined when a path of this length does not belong there,
   * something in it is no hash, or no tree has such a place.
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
      // A node without a neighbour moves up to a level where it has one.
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
   * Hashes kind, sizes and head, so that a root proves totals and positions too. `total` counts the markets below (of a
   * scores tree the lines, of a section the bytes).
   */
  const rootOf = (kind: keyof typeof rootTags, total: number, hashes: readonly H[]): H =>
    sealed(kind, total, hashes.length, treeHead(hashes));

  /** The root that an answer's path leads to; undefined when nothing can stand there. */
  const rootFrom = (kind: keyof typeof rootTags, hash: H, level: Level): H | undefined => {
    const head = isCount(level.markets) && headFrom(hash, level);
    return head ? sealed(kind, level.markets, level.size, head) : undefined;
  };

  return { leafHash, nodeHash, treeHead, headFrom, rootOf, rootFrom };
}

/**
 * The text of which a snapshot's id is the SHA-256, one line per part (snapshots/SPEC.md, "Roots"). How anything is
 * compressed does not matter.
 */
export function identityOf(
  content: Pick<CommitEntry, "feedVersion" | "counts" | "archiveRoot" | "scoresRoot">,
): string {
  const { feedVersion, counts, archiveRoot, scoresRoot } = content;
  return (
    `prs-snapshot 1 ${feedVersion}\nmarkets ${counts.markets}\nprotocols ${counts.protocols}\n` +
    `archive ${archiveRoot}\nscores ${scoresRoot}\n`
  );
}
