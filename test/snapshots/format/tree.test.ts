import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  auditPath,
  headFrom,
  leafHash,
  pathInLevels,
  rootOf,
  treeHead,
  treeLevels,
} from "../../../snapshots/format/tree.ts";
import { chunkLeaves } from "../../../snapshots/index/index-header.ts";
import { climb, sectionRoot } from "../../helpers/archive/plain-tree.ts";

const leavesOf = (count: number) => Array.from({ length: count }, (_, n) => leafHash(Buffer.from(`${n}`)));

test("an audit path proves its leaf at its place in a tree of its size, and nothing else", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 600 }), fc.nat(), fc.nat(), (size, place, other) => {
      const leaves = leavesOf(size);
      const [head, index] = [treeHead(leaves), place % size];
      const path = auditPath(leaves, index);
      expect(path.length).toBeLessThanOrEqual(Math.ceil(Math.log2(size)));
      const leaf = leaves[index]!;
      expect(headFrom(leaf, { index, size, path })).toEqual(head);
      expect(climb(leaf, index, size, path)).toEqual(head);
      const another = other % size;
      if (another !== index) expect(headFrom(leaf, { index: another, size, path })).not.toEqual(head);
      for (const outside of [-1 - index, size + index])
        expect(headFrom(leaf, { index: outside, size, path })).toBeUndefined();
      expect(headFrom(leafHash(Buffer.from("x")), { index, size, path })).not.toEqual(head);
      expect(headFrom(leaf, { index, size, path: [...path, leaf] })).toBeUndefined();
      if (size > 1) expect(headFrom(leaf, { index, size, path: path.slice(1) })).not.toEqual(head);
    }),
  );
});

test("the levels of a tree have the same audit paths", () => {
  for (const size of [1, 2, 3, 5, 8, 33, 100, 352]) {
    const leaves = leavesOf(size);
    const levels = treeLevels(leaves);
    for (const index of leaves.keys()) {
      const path = pathInLevels(levels, index, size).map((hash) => Buffer.from(hash));
      expect(path).toEqual(auditPath(leaves, index));
    }
  }
});

test("a root is the hash that snapshots/SPEC.md says: of its kind, its sizes and its head", () => {
  const leaves = leavesOf(0x0708);
  const head = treeHead(leaves);
  const kinds = { page: 2, segment: 3, archive: 4, scores: 5, index: 6, section: 7 } as const;
  for (const kind of ["page", "segment", "archive", "scores", "index", "section"] as const) {
    const input = [kinds[kind], 6, 5, 4, 3, 2, 1, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, ...head];
    expect(rootOf(kind, 0x0102_0304_0506, leaves)).toEqual(
      createHash("sha256").update(Uint8Array.from(input)).digest(),
    );
  }
});

test("a section is a tree of chunks, of which the last may be shorter", () => {
  for (const size of [256, 4096])
    for (const bytes of [0, 1, size - 1, size, size + 1, 5 * size, 12 * size + 7]) {
      const section = Uint8Array.from({ length: bytes }, (_, n) => (n * 31) % 251);
      expect(rootOf("section", bytes, chunkLeaves(section, size))).toEqual(sectionRoot(section, size));
    }
});

test("a leaf may be longer than those before", () => {
  for (const length of [100, 70_000, 100_000]) {
    const text = Buffer.alloc(length, "x");
    expect(leafHash(text)).toEqual(createHash("sha256").update("\0").update(text).digest());
  }
});
