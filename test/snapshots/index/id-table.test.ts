import { createHash, randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeIds, encodeIds, IdFilter, idHash, ordinalsOf } from "../../../snapshots/index/id-table.ts";

/** Ids of any segment, also such that differ only at their ends. */
const ids = fc.uniqueArray(
  fc.oneof(
    fc.uuid(),
    fc.nat(0xffff).map((n) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`),
  ),
  { minLength: 1, maxLength: 300, size: "max" },
);

describe("ids of a segment", () => {
  test("lead to the ordinal of each, and to nothing else", () => {
    fc.assert(
      fc.property(ids, fc.uuid(), (all, other) => {
        const stored = encodeIds(all.map(idHash));
        expect(stored.length).toBe(6 * all.length);
        expect([...decodeIds(stored)]).toEqual(all.map(idHash));
        const filter = new IdFilter(stored);
        for (const [ordinal, id] of all.entries()) {
          expect(ordinalsOf(stored, idHash(id))).toEqual([ordinal]);
          expect(filter.mayHold(idHash(id))).toBe(true);
        }
        expect(ordinalsOf(stored, idHash(other))).toEqual(all.includes(other) ? [all.indexOf(other)] : []);
      }),
    );
  });

  test("are hashes in ascending order, and their ordinals behind them", () => {
    const id = "ccf03e4f-8865-4597-8162-44e6eb01e175";
    const hash = createHash("sha256").update(id).digest().readUInt32BE(0);
    const other = randomUUID();
    const stored = encodeIds([idHash(other), idHash(id)]);
    const hashes = [stored.readUInt32LE(0), stored.readUInt32LE(4)];
    expect(hashes[0]! < hashes[1]!).toBe(true);
    expect(stored.readUInt16LE(8 + 2 * hashes.indexOf(hash))).toBe(1);
    expect([stored.readUInt16LE(8), stored.readUInt16LE(10)].sort()).toEqual([0, 1]);
  });

  test("that share a hash are all found", () => {
    const most = 2 ** 32 - 1;
    const stored = encodeIds([7, most, 7, 0, 7, most]);
    expect([0, 7, most, 8].map((hash) => ordinalsOf(stored, hash))).toEqual([[3], [0, 2, 4], [1, 5], []]);
  });

  test("of a full segment have a filter that lets few others pass", () => {
    const stored = encodeIds(Array.from({ length: 65_536 }, (_, n) => idHash(`in-${n}`)));
    const filter = new IdFilter(stored);
    const passed = Array.from({ length: 20_000 }, (_, n) => filter.mayHold(idHash(`out-${n}`)));
    // One of 1,700 is expected; the names are fixed, so the number is too.
    expect(passed.filter(Boolean).length).toBeLessThan(25);
    expect(Array.from({ length: 65_536 }, (_, n) => filter.mayHold(idHash(`in-${n}`)))).not.toContain(false);
  });
});
