import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type FilterValues, filterFields } from "../../../schemas/filters.ts";
import { runMarkets } from "../../../snapshots/format/page.ts";
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
import { columnsOf } from "../../../snapshots/index/index-header.ts";
import { createLabelTables } from "../../../snapshots/index/index-reader.ts";
import { LabelTable, retained } from "../../../snapshots/index/label-table.ts";
import { encodeSegment, loadSegment, readIndexHeader, readPages } from "../../../snapshots/index/segment.ts";
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
      { numRuns: 300 },
    );
  });
});

describe("LabelTable", () => {
  test("gives every label one id, and finds only what it was given", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "binary", maxLength: 5 })),
        fc.string({ maxLength: 5 }),
        (labels, other) => {
          const table = new LabelTable();
          const ids = labels.map((label) => table.intern(label));
          // Lone surrogates become U+FFFD in UTF-8, in the table as in every response.
          const known = labels.map((label) => label.toWellFormed());
          expect(ids.map((id) => table.label(id))).toEqual(known);
          expect(table.size).toBe(new Set(known).size);
          expect(table.find(other) !== undefined).toBe(known.includes(other.toWellFormed()));
        },
      ),
    );
  });

  test("finds labels in any letter case when it is told to, also after it has forgotten some", () => {
    let table = new LabelTable(true);
    const labels = [
      "Crypto",
      "CRYPTO",
      "crypto ",
      "Straße",
      "STRASSE",
      ...Array.from({ length: 200 }, (_, n) => `x${n}`),
    ];
    const ids = Uint32Array.from(labels, (label) => table.intern(label));
    const found = (value: string) => table.matching(value).map((id) => table.label(id));
    const check = () => {
      expect(found("cRYPTO")).toEqual(["Crypto", "CRYPTO"]);
      expect(found("STRAßE")).toEqual(["Straße"]);
      expect(found("nothing")).toEqual([]);
    };
    check();
    expect(found("X199")).toEqual(["x199"]);
    table = retained(table, [ids.slice(0, 5)]);
    check();
    expect(found("X199")).toEqual([]);
    expect(table.residentBytes).toBeGreaterThan(new LabelTable().residentBytes);

    const exact = new LabelTable();
    exact.intern("Crypto");
    expect([exact.matching("Crypto"), exact.matching("crypto")]).toEqual([[0], []]);
  });

  test("forgets labels that no row has now, and renumbers the others in place", () => {
    let table = new LabelTable();
    const label = (n: number) => `label ${n}`;
    const all = Uint32Array.from({ length: 5000 }, (_, n) => table.intern(label(n)));
    const live = [all.slice(10, 20), all.slice(15, 30)];
    // Whoever keeps ids can tell.
    expect(retained(table, [all])).toBe(table);
    expect(table.size).toBe(5000);
    table = retained(table, live);
    expect(table.size).toBe(20);
    expect(live.map((ids) => [...ids].map((id) => table.label(id)))).toEqual([
      Array.from({ length: 10 }, (_, n) => label(n + 10)),
      Array.from({ length: 15 }, (_, n) => label(n + 15)),
    ]);
    expect(table.find(label(9))).toBeUndefined();
    expect(table.find(label(29))).toBe(live[1]![14]);
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

describe("segments", () => {
  const values = fc.record(
    Object.fromEntries(
      filterFields.map((row) => [
        row.field,
        row.kind === "label"
          ? fc.string({ minLength: 1, maxLength: 3 })
          : fc.integer({ min: row.min, max: row.max }),
      ]),
    ),
  ) as fc.Arbitrary<FilterValues>;
  const rows = fc.array(fc.record({ values, resolvedAt: fc.nat(5_000_000_000_000), id: fc.uuid() }), {
    minLength: 1,
    maxLength: 90,
    size: "max",
  });
  const words = { unicode: "1.0", hash: "cd".repeat(32), bytes: 5 };
  const page = (markets: number, seed: number) => ({
    markets,
    hash: String(seed % 10).repeat(64),
    bytes: 100 + seed,
    root: "ab".repeat(32),
    runs: Array.from({ length: Math.ceil(markets / runMarkets) }, (_, n) => ({
      compressedBytes: n,
      rawBytes: 2 * n,
      crc: 3 * n,
    })),
    runHashes: "0123456789abcdef0123456789abcde"
      .padEnd(32, String(seed % 10))
      .repeat(Math.ceil(markets / runMarkets)),
  });

  test("hold what was put in, whatever the alignment of their bytes", () => {
    fc.assert(
      fc.property(rows, fc.nat(40), fc.nat(7), (unsorted, split, shift) => {
        const sorted = unsorted.toSorted((a, b) => a.resolvedAt - b.resolvedAt);
        const first = Math.min(split + 1, sorted.length);
        const pages = [page(first, 1), ...(first < sorted.length ? [page(sorted.length - first, 2)] : [])];
        const encoded = encodeSegment(pages, columnsOf(sorted), words);
        const stored = Buffer.concat([Buffer.alloc(shift), encoded]).subarray(shift);
        expect(readPages("segment", stored)).toEqual(pages);
        const tables = createLabelTables();
        const segment = loadSegment("segment", stored, tables);
        expect(segment.markets).toBe(sorted.length);
        expect(sorted.map((_, n) => timeAt(segment.times, n))).toEqual(sorted.map((row) => row.resolvedAt));
        expect([...segment.pageStarts]).toEqual([
          0,
          ...pages.map((_, n) => (n === 0 ? first : sorted.length)),
        ]);
      }),
      { numRuns: 60 },
    );
  });

  test("are refused when cut short anywhere", () => {
    const row = {
      id: "x",
      resolvedAt: 1,
      values: Object.fromEntries(
        filterFields.map((f) => [f.field, f.kind === "label" ? "a" : f.min]),
      ) as FilterValues,
    };
    const stored = encodeSegment([page(1, 1)], columnsOf([row]), words);
    for (let end = 0; end < stored.length - 8; end += 1) {
      const cut = stored.subarray(0, end);
      const read = () => [
        loadSegment("the segment", cut, createLabelTables()),
        readIndexHeader("the segment", cut),
      ];
      expect(read, String(end)).toThrow("the segment");
    }
  });
});
