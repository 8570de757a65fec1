import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TileError, tilePath, tilesOf } from "../../../snapshots/format/log-tiles.ts";
import {
  auditPath,
  consistencyFromTiles,
  GrowingTree,
  headFrom,
  headFromTiles,
  inclusionFromTiles,
  leafHash,
  tileEncoder,
} from "../../../snapshots/format/tree.ts";
import { consistencyPath } from "../../helpers/archive/consistency-path.ts";
import { isConsistent } from "../../helpers/store/consistency.ts";

// Three levels of tiles, the last two of which are partial.
const size = 256 * 256 + 700;
const entries = Array.from({ length: size }, (_, n) => Buffer.from(`entry ${n}`));
const leaves = entries.map((entry) => leafHash(entry));
const heads = (() => {
  const tree = new GrowingTree();
  return leaves.map((leaf) => {
    tree.append(leaf);
    return tree.head();
  });
})();
const encode = tileEncoder(entries);
const stored = new Map(tilesOf(size).map((tile) => [tilePath(tile), encode(tile)!]));
const levels = [0, 1, 2].map((level) =>
  Buffer.concat(tilesOf(size).flatMap((tile) => (tile.level === level ? stored.get(tilePath(tile))! : []))),
);

/** Tiles as a log of this size has them, and the paths that were read. */
function tilesAt(treeSize: number) {
  const read: string[] = [];
  const readTile = async (level: number, index: number, width: number) => {
    const path = tilePath({ level, index, width });
    read.push(path);
    expect((index * 256 + width) * 256 ** level).toBeLessThanOrEqual(treeSize);
    return levels[level]!.subarray(32 * 256 * index, 32 * (256 * index + width));
  };
  return { readTile, read };
}

// Sizes near the ends of tiles as often as others.
const sizes = fc.oneof(
  fc.integer({ min: 1, max: 1100 }),
  fc.integer({ min: 1, max: size }),
  fc.integer({ min: -3, max: 3 }).map((n) => 256 * 256 + n),
);
const few = { numRuns: 40 };

describe("tiles give", () => {
  test("the head of every size", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, async (end) => {
        const { readTile, read } = tilesAt(end);
        expect(await headFromTiles(readTile, end)).toEqual(heads[end - 1]);
        expect(read.length).toBeLessThanOrEqual(3);
      }),
      few,
    );
  });

  test("the audit path of every entry", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(), async (end, place) => {
        const index = place % end;
        const { readTile, read } = tilesAt(end);
        const path = await inclusionFromTiles(readTile, index, end);
        expect(headFrom(leaves[index]!, { index, size: end, path })).toEqual(heads[end - 1]);
        if (end <= 1100) expect(path).toEqual(auditPath(leaves.slice(0, end), index));
        expect(new Set(read).size).toBe(read.length);
        expect(read.length).toBeLessThanOrEqual(6);
      }),
      few,
    );
  });

  test("the path from every size to every larger one", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(), async (end, place) => {
        const first = 1 + (place % end);
        const { readTile, read } = tilesAt(end);
        const path = await consistencyFromTiles(readTile, first, end);
        const [before, after] = [first, end].map((n) => ({ size: n, head: heads[n - 1]! }));
        expect(isConsistent(before!, after!, path)).toBe(true);
        if (end <= 1100) expect(path).toEqual(consistencyPath(leaves.slice(0, end), first));
        expect(read.length).toBeLessThanOrEqual(6);
      }),
      few,
    );
  });

  test("the same where a partial tile gave way to the full one", async () => {
    const readTile = async (level: number, index: number, width: number) =>
      stored.get(tilePath({ level, index, width }));
    for (const end of [1, 255, 257, 300, 700]) {
      expect(await headFromTiles(readTile, end)).toEqual(heads[end - 1]);
      const path = await consistencyFromTiles(readTile, 1, end);
      const [before, after] = [1, end].map((n) => ({ size: n, head: heads[n - 1]! }));
      expect(isConsistent(before!, after!, path)).toBe(true);
    }
  });
});

describe("refused are", () => {
  test("tiles that are missing or of another length, by name", async () => {
    const missing = headFromTiles(async () => undefined, 300);
    await expect(missing).rejects.toThrow(new TileError({ level: 1, index: 0, width: 1 }, "is missing"));
    const short = headFromTiles(async () => new Uint8Array(32), 5);
    await expect(short).rejects.toThrow("Tile 0/000.p/5 of the log has 32 bytes.");
  });

  test("places that a log does not have, before a tile is read", async () => {
    const readTile = async () => expect.unreachable("read");
    for (const wrong of [0, -1, 1.5, Number.NaN, 2 ** 31 + 1])
      await expect(headFromTiles(readTile, wrong)).rejects.toThrow(RangeError);
    await expect(headFromTiles(async () => undefined, 2 ** 31)).rejects.toThrow(TileError);
    for (const index of [-1, 5, 1.5]) {
      await expect(inclusionFromTiles(readTile, index, 5)).rejects.toThrow(RangeError);
      await expect(consistencyFromTiles(readTile, index + 1, 5)).rejects.toThrow(RangeError);
    }
  });
});
