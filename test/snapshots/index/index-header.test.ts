import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { auditPath, headFrom, leafHash, rootOf, treeHead } from "../../../snapshots/format/tree.ts";
import { chunkLeaves } from "../../../snapshots/index/index-header.ts";

const hashOf = (...parts: Uint8Array[]) => createHash("sha256").update(Buffer.concat(parts)).digest();

/** The root of a section, made level by level: the second implementation. */
function plainRoot(section: Uint8Array, size: number): Buffer {
  let level: Buffer[] = [];
  for (let at = 0; at < section.length; at += size)
    level.push(hashOf(Buffer.of(0), section.subarray(at, Math.min(at + size, section.length))));
  const sizes = new BigUint64Array([BigInt(section.length), BigInt(level.length)]);
  while (level.length > 1)
    level = level.flatMap((hash, n) => {
      if (n % 2 === 1) return [];
      const right = level[n + 1];
      return [right ? hashOf(Buffer.of(1), hash, right) : hash];
    });
  return hashOf(Buffer.of(7), new Uint8Array(sizes.buffer), level[0] ?? hashOf());
}

/** The head of a tree from the hash of a leaf and its path, as the steps in snapshots/SPEC.md, "Proofs", say. */
function plainHead(leaf: Buffer, index: number, size: number, path: readonly Buffer[]): Buffer | undefined {
  let [hash, i, last] = [leaf, index, size - 1];
  for (const one of path) {
    if (last === 0) return undefined;
    const onRight = i % 2 === 1 || i === last;
    hash = onRight ? hashOf(Buffer.of(1), one, hash) : hashOf(Buffer.of(1), hash, one);
    if (onRight) for (; i % 2 === 0 && i > 0; i >>= 1) last >>= 1;
    [i, last] = [i >> 1, last >> 1];
  }
  return last === 0 ? hash : undefined;
}

test("chunks are proved to be parts of a section, by two implementations, and changed ones are not", () => {
  const cases = fc.record({
    name: fc.constantFrom("ids", "times", "outcome.postings"),
    // Around the ends of chunks, too.
    bytes: fc.oneof(
      fc.nat(30_000),
      fc
        .tuple(fc.nat(12), fc.integer({ min: -1, max: 1 }))
        .map(([chunks, more]) => Math.max(0, chunks * 256 + more)),
    ),
    seed: fc.nat(255),
    chosen: fc.nat(),
    flipped: fc.nat(),
  });
  fc.assert(
    fc.property(cases, ({ name, bytes, seed, chosen, flipped }) => {
      const section = Uint8Array.from({ length: bytes }, (_, n) => (n * 31 + seed) % 251);
      const size = name === "ids" ? 256 : 4096;
      const leaves = chunkLeaves(section, size);
      const root = rootOf("section", bytes, leaves);
      expect(root).toEqual(plainRoot(section, size));
      if (bytes === 0) return;
      const index = chosen % leaves.length;
      const path = auditPath(leaves, index);
      const chunk = section.slice(index * size, (index + 1) * size);
      const proved = (text: Uint8Array) => {
        const head = headFrom(leafHash(text), { index, size: leaves.length, path })!;
        expect(plainHead(leafHash(text), index, leaves.length, path)).toEqual(head);
        return head.equals(treeHead(leaves));
      };
      expect(proved(chunk)).toBe(true);
      chunk[flipped % chunk.length]! ^= 1;
      expect(proved(chunk)).toBe(false);
      expect(proved(chunk.subarray(0, -1))).toBe(false);
    }),
    { numRuns: 150 },
  );
});
