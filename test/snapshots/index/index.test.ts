import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countRange,
  hasBit,
  rangeBitmap,
  selectDescending,
  setBit,
  wordsFor,
} from "../../../snapshots/index/bitmap.ts";
import {
  buildIntegerColumn,
  buildLabelColumn,
  buildTimeColumn,
  inLabels,
  inRanges,
  lowerBound,
  rareMarketsOf,
  timeAt,
} from "../../../snapshots/index/columns.ts";
import { LabelTable } from "../../../snapshots/index/label-table.ts";
import { type ColumnCondition, sliceKernel } from "../../../snapshots/index/slice-kernel.ts";

const bitsOf = (bitmap: Uint32Array, size: number) =>
  Array.from({ length: size }, (_, n) => n).filter((n) => hasBit(bitmap, n));

/** The ordinals from `from` up that a condition keeps, which are all without one. */
function kept(markets: number, from: number, condition: ColumnCondition | undefined): number[] {
  const { count, bits } = sliceKernel.select(markets, from, markets, condition ? [condition] : []);
  const ordinals = bits ? bitsOf(bits, markets) : [];
  expect(count).toBe(ordinals.length);
  return ordinals;
}

describe("bitmaps", () => {
  const sized = fc
    .integer({ min: 1, max: 200 })
    .chain((size) =>
      fc.tuple(fc.constant(size), fc.uniqueArray(fc.nat(size - 1)), fc.nat(size), fc.nat(size)),
    );

  test("count, select and cut as a list of numbers does", () => {
    fc.assert(
      fc.property(sized, ([size, members, a, b]) => {
        const bitmap = new Uint32Array(wordsFor(size));
        for (const member of members) setBit(bitmap, member);
        const descending = members.toSorted((x, y) => y - x);
        expect(selectDescending(bitmap, a, b)).toEqual(descending.slice(a, a + b));
        expect(countRange(bitmap, a, size)).toBe(members.filter((member) => member >= a).length);
        const within = members.filter((member) => member >= a && member < b);
        expect(countRange(bitmap, a, b)).toBe(within.length);
        const even = new Uint32Array(bitmap.length).fill(0x55555555);
        expect(countRange(bitmap, a, b, even)).toBe(within.filter((member) => member % 2 === 0).length);
        const range = bitsOf(rangeBitmap(size, a, b), size);
        expect(range).toEqual(Array.from({ length: Math.max(0, b - a) }, (_, n) => a + n));
      }),
    );
  });
});

describe("inRanges(column, ranges)", () => {
  test("keeps what comparisons keep, for bounds inside, at and beyond the column's", () => {
    const bound = fc.integer({ min: 290, max: 1010 });
    const values = fc.array(fc.integer({ min: 300, max: 1000 }), {
      minLength: 1,
      maxLength: 700,
      size: "max",
    });
    const anyRanges = fc.array(fc.record({ min: bound, max: bound }), { maxLength: 3 });
    fc.assert(
      fc.property(values, anyRanges, (list, ranges) => {
        const condition = inRanges(buildIntegerColumn(list, 300, 1000), ranges);
        const inAny = (value: number) => ranges.some(({ min, max }) => value >= min && value <= max);
        expect(kept(list.length, 0, condition)).toEqual(
          list.flatMap((value, n) => (inAny(value) ? [n] : [])),
        );
      }),
      { numRuns: 200 },
    );
  });

  test("refuses a value the column cannot hold", () => {
    expect(() => buildIntegerColumn([1, 101], 0, 100)).toThrow(RangeError);
  });
});

describe("inLabels(column, ids)", () => {
  test("keeps exactly the asked labels, frequent and rare", () => {
    const label = fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom("Yes", "No") },
      { weight: 4, arbitrary: fc.string({ maxLength: 2 }) },
    );
    const values = fc.array(label, { minLength: 1, maxLength: 300, size: "max" });
    fc.assert(
      fc.property(values, fc.array(fc.nat(299), { maxLength: 4 }), fc.nat(299), (list, picks, some) => {
        const table = new LabelTable();
        const { frequent, rare, ...column } = buildLabelColumn(list);
        const intern = (text: string) => table.intern(text);
        const loaded = {
          ...column,
          frequentIds: Uint32Array.from(frequent, intern),
          rareIds: Uint32Array.from(rare, intern),
          rare: rareMarketsOf({ frequent, rare, ...column }, list.length),
        };
        const { bits, before, ranks } = loaded.rare;
        for (const [n, text] of list.entries()) {
          const rank = rare.indexOf(text);
          expect(bits.length > 0 && hasBit(bits, n)).toBe(rank >= 0);
          const word = n >>> 5;
          if (rank >= 0) expect(ranks[before[word]! + countRange(bits, word * 32, n)]).toBe(rank);
        }
        const wanted = new Set(picks.map((pick) => list[pick % list.length]!));
        const from = some % list.length;
        const condition = inLabels(loaded, new Set(Array.from(wanted, (text) => table.find(text)!)));
        const expected = list.flatMap((text, n) => (n >= from && wanted.has(text) ? [n] : []));
        expect(kept(list.length, from, condition)).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });
});

describe("time column", () => {
  test("gives back every time and finds the first at or after any", () => {
    const time = fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 });
    fc.assert(
      fc.property(fc.array(time, { minLength: 1, maxLength: 80, size: "max" }), time, (list, probe) => {
        const sorted = list.toSorted((a, b) => a - b);
        const column = buildTimeColumn(sorted);
        expect(sorted.map((_, n) => timeAt(column, n))).toEqual(sorted);
        for (const bound of [probe, sorted[0]!, sorted.at(-1)!, sorted.at(-1)! + 1, -Infinity, Infinity]) {
          const expected = sorted.findIndex((value) => value >= bound);
          expect(lowerBound(column, bound)).toBe(expected < 0 ? sorted.length : expected);
        }
      }),
    );
  });
});
