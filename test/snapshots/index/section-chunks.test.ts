import fc from "fast-check";
import { expect, test } from "vitest";
import { auditPath, headFrom, leafHash, rootOf, treeHead } from "../../../snapshots/format/tree.ts";
import { chunkLeaves } from "../../../snapshots/index/index-header.ts";
import { climb, sectionRoot } from "../../helpers/archive/plain-tree.ts";

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
      expect(root).toEqual(sectionRoot(section, size));
      if (bytes === 0) return;
      const index = chosen % leaves.length;
      const path = auditPath(leaves, index);
      const chunk = section.slice(index * size, (index + 1) * size);
      const proved = (text: Uint8Array) => {
        const head = headFrom(leafHash(text), { index, size: leaves.length, path })!;
        expect(climb(leafHash(text), index, leaves.length, path)).toEqual(head);
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
