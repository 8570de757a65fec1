import { createHash } from "node:crypto";

// The trees of hashes as a reader computes them from snapshots/SPEC.md and RFC 6962 alone: the second implementation.

export const sha = (...parts: Uint8Array[]) => createHash("sha256").update(Buffer.concat(parts)).digest();
export const leaf = (bytes: Uint8Array) => sha(Buffer.of(0), bytes);
export const node = (left: Uint8Array, right: Uint8Array) => sha(Buffer.of(1), left, right);

/** The head of a tree, level by level: pairs become nodes, and a hash without a neighbour goes up as it is. */
export function headOf(hashes: readonly Uint8Array[]): Uint8Array {
  if (hashes.length < 2) return hashes[0] ?? sha();
  return headOf(
    hashes.flatMap((hash, n) =>
      n % 2 === 1 ? [] : n + 1 < hashes.length ? [node(hash, hashes[n + 1]!)] : [hash],
    ),
  );
}

/** A root: the hash of a head with its kind, what it is over, and how many hashes it has. */
export function sealed(kind: number, total: number, hashes: readonly Uint8Array[]): Buffer {
  const sizes = new BigUint64Array([BigInt(total), BigInt(hashes.length)]);
  return sha(Buffer.of(kind), new Uint8Array(sizes.buffer), headOf(hashes));
}

export const chunksOf = (bytes: Uint8Array, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.subarray(n * size, (n + 1) * size));

/** The root of a section that has chunks of a size. */
export const sectionRoot = (bytes: Uint8Array, size: number) =>
  sealed(7, bytes.length, chunksOf(bytes, size).map(leaf));

/** The head that an audit path leads to; undefined where it is none of a tree of this size. */
export function climb(
  start: Buffer,
  index: number,
  size: number,
  path: readonly Uint8Array[],
): Buffer | undefined {
  let [hash, at, last] = [start, index, size - 1];
  for (const beside of path) {
    if (last === 0) return undefined;
    const onRight = at % 2 === 1 || at === last;
    hash = onRight ? node(beside, hash) : node(hash, beside);
    if (onRight) for (; at % 2 === 0 && at > 0; at >>= 1) last >>= 1;
    [at, last] = [at >> 1, last >> 1];
  }
  return last === 0 ? hash : undefined;
}
