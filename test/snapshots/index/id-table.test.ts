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
  { minLength: 1, maxLength: 300 },
);

describe("ids of a segment", () => {
  test("lead to the ordinal of each, and to nothing else", () => {
    fc.assert(
      fc.property(ids, fc.uuid(), (all, other) => {
        const stored = encodeIds(all.map(idHash));
        expect(stored.length).toBe(8 * all.length);
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

  test("are uint64 in ascending order, the hash above the ordinal", () => {
    const id = "ccf03e4f-8865-4597-8162-44e6eb01e175";
    const hash = createHash("sha256").update(id).digest("hex");
    const other = randomUUID();
    const stored = encodeIds([idHash(other), idHash(id)]);
    const entries = [stored.readBigUInt64LE(0), stored.readBigUInt64LE(8)];
    expect(entries).toContain(BigInt(`0x${hash.slice(0, 12)}`) * 65_536n + 1n);
    expect(entries[0]! < entries[1]!).toBe(true);
  });

  test("that share a hash are all found", () => {
    const hashes = [7, 2 ** 48 - 1, 7, 0, 7, 2 ** 48 - 1];
    const stored = encodeIds(hashes);
    expect([0, 7, 2 ** 48 - 1, 8].map((hash) => ordinalsOf(stored, hash))).toEqual([
      [3],
      [0, 2, 4],
      [1, 5],
      [],
    ]);
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
