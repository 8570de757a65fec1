import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeEntries,
  type Tile,
  TileError,
  tileAt,
  tilePath,
  tilesOf,
} from "../../../snapshots/format/log-tiles.ts";
import {
  auditPath,
  consistencyFromTiles,
  encodeEntries,
  GrowingTree,
  headFrom,
  headFromTiles,
  inclusionFromTiles,
  leafHash,
  tileEncoder,
} from "../../../snapshots/format/tree.ts";
import { isConsistent } from "../../helpers/store/consistency.ts";

// What roots and audit paths are is told by the store that is kept, and by readers that others wrote, in
// test/conformance.

test("a leaf may be longer than those before", () => {
  for (const length of [100, 70_000, 100_000]) {
    const text = Buffer.alloc(length, "x");
    expect(leafHash(text)).toEqual(createHash("sha256").update("\0").update(text).digest());
  }
});

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

describe("tiles", () => {
  test("of 70,000 and of 256 entries are those of the specification's examples", () => {
    const tiles = tilesOf(70_000);
    const widthsOf = (level: Tile["level"]) =>
      tiles.filter((tile) => tile.level === level).map(({ width }) => width);
    expect(widthsOf(0)).toEqual([...Array(273).fill(256), 112]);
    expect(widthsOf("entries")).toEqual(widthsOf(0));
    expect(widthsOf(1)).toEqual([256, 17]);
    expect(widthsOf(2)).toEqual([1]);
    expect(widthsOf(3)).toEqual([]);
    expect(tilesOf(256).map(tilePath)).toEqual(["entries/000", "0/000", "1/000.p/1"]);
    expect(tilesOf(0)).toEqual([]);
  });

  test("lie where the specification says, and nowhere else", () => {
    for (const [tile, path] of [
      [{ level: 0, index: 1_234_067, width: 256 }, "0/x001/x234/067"],
      [{ level: "entries", index: 1000, width: 5 }, "entries/x001/000.p/5"],
    ] as const)
      expect([tilePath(tile), tileAt(path)]).toEqual([path, tile]);
    for (const path of ["0/0", "0/x000/001", "0/000.p/0", "0/000.p/256", "0/000.p/01", "x/000", "0/000/"])
      expect(tileAt(path), path).toBeUndefined();
  });

  test("hold entries from which their hashes follow, and are those that are known", () => {
    const hashes = (path: string) => {
      const bytes = stored.get(path)!;
      return Array.from({ length: bytes.length / 32 }, (_, n) => bytes.subarray(32 * n, 32 * (n + 1)));
    };
    const bundle = decodeEntries(stored.get("entries/258.p/188")!)!;
    expect(bundle.map((entry) => leafHash(entry))).toEqual(hashes("0/258.p/188"));
    const without = tileEncoder(entries.slice(0, 800).map((entry, n) => (n === 256 ? undefined : entry)));
    const unknown = tilesOf(800).filter((tile) => !without(tile));
    expect(unknown.map(tilePath)).toEqual(["entries/001", "0/001", "1/000.p/3"]);
  });

  test("of entries tell where each ends", () => {
    const bundle = encodeEntries([Buffer.from("ab"), Buffer.alloc(0)]);
    expect(bundle.toString("hex")).toBe("000261620000");
    expect(decodeEntries(bundle)).toEqual([Buffer.from("ab"), Buffer.alloc(0)]);
    expect(decodeEntries(bundle.subarray(0, -1))).toBeUndefined();
    expect(decodeEntries(Buffer.of(0))).toBeUndefined();
    expect(() => encodeEntries([Buffer.alloc(65_536)])).toThrow(RangeError);
  });
});

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
const anySize = fc.oneof(
  fc.integer({ min: 1, max: 1100 }),
  fc.integer({ min: 1, max: size }),
  fc.integer({ min: -3, max: 3 }).map((n) => 256 * 256 + n),
);

describe("tiles give", () => {
  test("the head of every size, the audit path of every entry, and the path to it from every smaller size", async () => {
    await fc.assert(
      fc.asyncProperty(anySize, fc.nat(), async (end, place) => {
        const index = place % end;
        const [forHead, forLeaf, forFirst] = [tilesAt(end), tilesAt(end), tilesAt(end)];
        expect(await headFromTiles(forHead.readTile, end)).toEqual(heads[end - 1]);
        expect(forHead.read.length).toBeLessThanOrEqual(3);

        const path = await inclusionFromTiles(forLeaf.readTile, index, end);
        expect(headFrom(leaves[index]!, { index, size: end, path })).toEqual(heads[end - 1]);
        const longer = { index, size: end, path: [...path, leaves[0]!] };
        expect(headFrom(leaves[index]!, longer)).toBeUndefined();
        if (end <= 1100) expect(path).toEqual(auditPath(leaves.slice(0, end), index));

        const [before, after] = [index + 1, end].map((size) => ({ size, head: heads[size - 1]! }));
        const between = await consistencyFromTiles(forFirst.readTile, before!.size, end);
        expect(isConsistent(before!, after!, between)).toBe(true);
        const shorter = between.length > 0 ? [between.slice(1), between.slice(0, -1)] : [];
        for (const other of [[...between, leaves[0]!], ...shorter])
          expect(isConsistent(before!, after!, other)).toBe(false);

        for (const { read } of [forLeaf, forFirst]) {
          expect(new Set(read).size).toBe(read.length);
          expect(read.length).toBeLessThanOrEqual(6);
        }
      }),
      { numRuns: 40 },
    );
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
