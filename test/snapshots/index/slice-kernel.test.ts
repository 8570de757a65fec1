import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import wabt from "wabt";
import { countRange, wordsFor } from "../../../snapshots/index/bitmap.ts";
import {
  everyValue,
  plainLoops,
  SliceKernel,
  simdBytes,
  simdLoops,
} from "../../../snapshots/index/slice-kernel.ts";

const source = join(import.meta.dirname, "../../../snapshots/index/slice-kernel.wat");

test("the committed bytes are those of slice-kernel.wat", async () => {
  const { parseWat } = await wabt();
  const parsed = parseWat(source, readFileSync(source, "utf8"), { simd: true });
  const { buffer } = parsed.toBinary({});
  parsed.destroy();
  expect(Buffer.from(simdBytes).toString("base64")).toBe(Buffer.from(buffer).toString("base64"));
});

/** A bitmap that begins at any word of its buffer, with half of the bits set, few, most or none. */
function bitmapOf(words: number, seed: number): Uint32Array {
  const shift = seed % 5;
  const buffer = new Uint32Array(shift + words);
  let state = seed | 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state;
  };
  for (let word = shift; word < buffer.length; word += 1)
    buffer[word] = [next, () => next() & next() & next() & next(), () => next() | next(), () => 0][
      seed % 4
    ]!();
  return buffer.subarray(shift);
}

describe("SliceKernel with SIMD", () => {
  const [simd, plain] = [new SliceKernel(simdLoops()), new SliceKernel(plainLoops())];
  const seed = fc.integer({ min: 1, max: 2 ** 31 - 1 });
  // Around the ends of blocks of 512 bits, and up to a segment's 65,536.
  const words = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 1, max: 100 }) },
    { weight: 1, arbitrary: fc.constantFrom(2047, 2048) },
  );
  const column = fc.record({ words, slices: fc.integer({ min: 1, max: 31 }), seed }).chain((shape) => {
    const bound = fc.oneof(fc.integer({ min: 0, max: 2 ** shape.slices - 1 }), fc.constantFrom(0, 1));
    return fc.record({
      words: fc.constant(shape.words),
      slices: fc.constant(bitmapOf(shape.words * shape.slices, shape.seed)),
      ranges: fc.array(fc.record({ low: bound, end: fc.option(bound, { nil: undefined }) }), {
        maxLength: 3,
      }),
      bounds: fc.integer({ min: 0, max: Math.min(6, 2 ** shape.slices - 1) }),
      seed,
    });
  });

  test("does what the plain loops do, at every length, alignment and tail", () => {
    fc.assert(
      fc.property(column, ({ words, slices, ranges, bounds, seed }) => {
        const bits = bitmapOf(words, seed);
        const others = bits.map((word, at) => word & (seed >>> (at % 7)));
        const listed = Uint16Array.from({ length: seed % 9 }, (_, n) => (seed >>> n) % (words * 32));
        const conditions = [
          { slices, ranges, ordinals: seed % 3 ? [] : [listed] },
          { slices: bits, ranges: [{ low: 1, end: undefined }], ordinals: [] },
        ];
        const markets = words * 32 - (seed % 32);
        const select = (kernel: SliceKernel) => kernel.select(markets, seed % markets, markets, conditions);
        expect(select(simd)).toEqual(select(plain));
        const selected = select(plain);
        expect(selected.count).toBe(selected.bits ? countRange(selected.bits, 0, markets) : 0);
        expect(simd.countBits(bits)).toBe(plain.countBits(bits));
        const width =
          1 + (seed % Math.max(1, Math.floor((2 ** (slices.length / words) - 1) / Math.max(1, bounds))));
        // Others beside it, more than fit into the memory at once where the segment is large.
        const columns = [{ slices, width, bounds }, ...Array(3).fill({ slices, width: 1, bounds: 1 })];
        const count = (kernel: SliceKernel) => kernel.countColumns(bits, others, columns);
        expect(count(simd)).toEqual(count(plain));
        const alone = columns.flatMap((column) => [...plain.countColumns(bits, others, [column])]);
        expect([...count(simd)]).toEqual(alone);
      }),
      { numRuns: 150 },
    );
  });

  test("counts every bit of the largest segment, and of the others beside it", () => {
    const all = new Uint32Array(wordsFor(65_536)).fill(0xffffffff);
    for (const kernel of [simd, plain])
      expect([...kernel.countColumns(all, all, [everyValue])]).toEqual([65_536, 65_536]);
  });
});
