import { type Bitmap, popCount } from "./bitmap.ts";

// Filters and facets spend their time in two loops over bit slices. WebAssembly runs them on 128 bits at a time, in a
// memory of its own that bitmaps and slices are copied into. Copying a column takes no longer than comparing it once.
// Columns cannot stay there: V8 reserves gigabytes of addresses for each memory, and one for all would have to be
// managed by hand.

/** The loops, and the memory they work in. Addresses are in bytes; slice-kernel.wat says what each loop does. */
export interface SliceLoops {
  memory: { buffer: ArrayBuffer };
  keepFrom(
    result: number,
    end: number,
    slices: number,
    stride: number,
    count: number,
    bound: number,
    flip: number,
  ): void;
  countFrom(
    bits: number,
    bitsEnd: number,
    others: number,
    slices: number,
    stride: number,
    bounds: number,
    end: number,
  ): void;
  countPostings(
    bits: number,
    others: number,
    postings: number,
    end: number,
    starts: number,
    counts: number,
  ): void;
}

const memoryBytes = 7 * 65_536;
// A bitmap of 65,536 bits, the most that a segment has, then up to 32 slices, and the bounds of a count.
const [resultAt, slicesAt, boundsAt] = [0, 8192, 8192 * 33];
// Behind 512 bounds and the 64 bytes that counting needs, two more bitmaps.
const [partAt, restAt] = [8192 * 36, 8192 * 37];
// Or another bitmap, bits of 65,536 postings, the postings, and a count for each label.
const [otherAt, startsAt, postingsAt, countsAt] = [8192, 8192 * 2, 8192 * 3, 8192 * 19];
const blockBytes = 64;
const boundWords = 8;
const none = new Uint32Array();

/** Values from `low` (inclusive) to `end` (exclusive; undefined: no end). */
export interface ValueRange {
  low: number;
  end: number | undefined;
}

/** The loops in plain TypeScript, for machines without SIMD and for comparison in tests. */
export function plainLoops(): SliceLoops {
  const buffer = new ArrayBuffer(memoryBytes);
  const words = new Uint32Array(buffer);
  return {
    memory: { buffer },
    keepFrom(result, end, slices, stride, count, bound, flip) {
      for (let offset = 0; offset < end - result; offset += 4) {
        const kept = boundedWord(words, slices + offset, stride, count, bound);
        words[(result + offset) >>> 2]! &= kept ^ flip;
      }
    },
    countFrom(bits, bitsEnd, others, slices, stride, bounds, end) {
      for (let entry = bounds >>> 2; entry < end >>> 2; entry += boundWords) {
        const [first = 0, size = 0, bound = 0] = words.subarray(entry, entry + 3);
        for (let offset = 0; offset < bitsEnd - bits; offset += 4) {
          const from = boundedWord(words, slices + first + offset, stride, size, bound);
          words[entry + 3]! += popCount(from & words[(bits + offset) >>> 2]!);
          words[entry + 4]! += popCount(from & words[(others + offset) >>> 2]!);
        }
      }
    },
    countPostings(bits, others, postings, end, starts, counts) {
      const ordinals = new Uint16Array(buffer, postings, (end - postings) / 2);
      const bit = (bitmap: number, n: number) => (words[(bitmap >>> 2) + (n >>> 5)]! >>> (n & 31)) & 1;
      let label = counts >>> 2;
      for (let index = 0; index < ordinals.length; index += 1) {
        const ordinal = ordinals[index]!;
        label += bit(starts, index);
        words[label]! += bit(bits, ordinal) | (bit(others, ordinal) << 16);
      }
    },
  };
}

/** A word's bits whose values are at least the bound. The slices of the word begin at `at`, and are `count`. */
function boundedWord(words: Uint32Array, at: number, stride: number, count: number, bound: number): number {
  let kept = -1;
  for (let slice = 0; slice < count; slice += 1) {
    const bits = words[(at + slice * stride) >>> 2]!;
    kept = (bound >>> slice) & 1 ? kept & bits : kept | bits;
  }
  return kept;
}

// TypeScript declares it for browsers only.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: unknown };
};

/** slice-kernel.wat, assembled. A test assembles it again and compares. */
export const simdBytes = Uint8Array.from(
  atob(
    "AGFzbQEAAAABGQNgB39/f39/f38AYAF/AX9gBn9/f39/fwADBQQAAQACBQMBAAcHMQQGbWVtb3J5AgAIa2VlcEZyb20AAAljb3VudEZyb20AAg1jb3VudFBvc3RpbmdzAAMKvAcExgICA38FeyAG/REhDgNAIAD9AAQAIAD9AAQQ/VAgAP0ABCAgAP0ABDD9UP1Q/VMEQP0M/////////////////////yEKIAohCyAKIQwgCiENIAIhByAFIQggBCEJA0AgCEEBcQRAIAogB/0ABAD9TiEKIAsgB/0ABBD9TiELIAwgB/0ABCD9TiEMIA0gB/0ABDD9TiENBSAKIAf9AAQA/VAhCiALIAf9AAQQ/VAhCyAMIAf9AAQg/VAhDCANIAf9AAQw/VAhDQsgByADaiEHIAhBAXYhCCAJQQFrIgkNAAsgACAA/QAEACAKIA79Uf1O/QsEACAAIAD9AAQQIAsgDv1R/U79CwQQIAAgAP0ABCAgDCAO/VH9Tv0LBCAgACAA/QAEMCANIA79Uf1O/QsEMAsgAkHAAGohAiAAQcAAaiIAIAFJDQALCzoAIAApAwB7IAApAwh7fCAAKQMQeyAAKQMYe3x8IAApAyB7IAApAyh7fCAAKQMweyAAKQM4e3x8fKcLuAMCBH8EewNAIAD9AAQAIAD9AAQQ/VAgAP0ABCAgAP0ABDD9UP1Q/VMEQCAFIQcDQP0M/////////////////////yELIAshDCALIQ0gCyEOIAMgBygCAGohCCAHKAIIIQkgBygCBCIKBEADQCAJQQFxBEAgCyAI/QAEAP1OIQsgDCAI/QAEEP1OIQwgDSAI/QAEIP1OIQ0gDiAI/QAEMP1OIQ4FIAsgCP0ABAD9UCELIAwgCP0ABBD9UCEMIA0gCP0ABCD9UCENIA4gCP0ABDD9UCEOCyAIIARqIQggCUEBdiEJIApBAWsiCg0ACwsgBiALIAD9AAQA/U79CwQAIAYgDCAA/QAEEP1O/QsEECAGIA0gAP0ABCD9Tv0LBCAgBiAOIAD9AAQw/U79CwQwIAcgBygCDCAGEAFqNgIMIAYgCyAC/QAEAP1O/QsEACAGIAwgAv0ABBD9Tv0LBBAgBiANIAL9AAQg/U79CwQgIAYgDiAC/QAEMP1O/QsEMCAHIAcoAhAgBhABajYCECAHQSBqIgcgBkkNAAsLIANBwABqIQMgAkHAAGohAiAAQcAAaiIAIAFJDQALC30BBX8DQEEBIAQgBkEDdmotAAAgBkEHcXZxIQkgBSAJQQJ0aiEFIAIvAQAiCEEDdiEHIAhBB3EhCCAFIAogCUEBa3FBASAAIAdqLQAAIAh2cUEBIAEgB2otAAAgCHZxQRB0cmoiCjYCACAGQQFqIQYgAkECaiICIANJDQALCw==",
  ),
  (byte) => byte.charCodeAt(0),
);

/** The loops in WebAssembly. Throws where it is switched off or has no SIMD. */
export function simdLoops(): SliceLoops {
  return new WebAssembly.Instance(new WebAssembly.Module(simdBytes)).exports as SliceLoops;
}

/** Compares and counts the values of a column in bit slices, of 1 to 65,536 markets. */
export class SliceKernel {
  readonly #loops: SliceLoops;
  readonly #memory: Uint32Array;

  constructor(loops: SliceLoops) {
    this.#loops = loops;
    this.#memory = new Uint32Array(loops.memory.buffer);
  }

  /**
   * Clears every bit in `result` whose value is in none of the ranges. Bounds have no more bits than there are slices.
   */
  keepRanges(slices: Uint32Array, ranges: readonly ValueRange[], result: Bitmap): void {
    const { length } = result;
    const memory = this.#memory;
    const end = this.#put(resultAt, result);
    memory.set(slices, slicesAt / 4);
    const [first, ...others] = ranges;
    if (first && others.length === 0) this.#keepRange(resultAt, slices, length, first);
    else {
      // `rest` loses what is in a range, and the result then loses the rest.
      memory.copyWithin(restAt / 4, resultAt / 4, end / 4);
      for (const range of ranges) {
        memory.copyWithin(partAt / 4, resultAt / 4, end / 4);
        this.#keepRange(partAt, slices, length, range);
        this.#clear(restAt, partAt, length);
      }
      this.#clear(resultAt, restAt, length);
    }
    result.set(memory.subarray(resultAt / 4, resultAt / 4 + length));
  }

  /**
   * How many of `bits`, and of `others`, which are a part of them, have a value of at least each bound. Bounds have no
   * more bits than there are slices; up to 512 of them are counted at once.
   */
  countFrom(
    slices: Uint32Array,
    bounds: readonly number[],
    bits: Bitmap,
    others: Bitmap,
  ): [count: number, ofOthers: number][] {
    const [memory, words] = [this.#memory, bits.length];
    const end = this.#put(resultAt, bits);
    this.#put(partAt, others);
    memory.set(slices, slicesAt / 4);
    const size = slices.length / words;
    let at = boundsAt / 4;
    for (const bound of bounds) {
      const first = lowestSlice(bound);
      memory[at] = first * words * 4;
      memory[at + 1] = size - first;
      memory[at + 2] = bound >>> first;
      memory.fill(0, at + 3, at + 5);
      at += boundWords;
    }
    if (bounds.length > 0)
      this.#loops.countFrom(resultAt, end, partAt, slicesAt, words * 4, boundsAt, at * 4);
    return bounds.map((_, index) => {
      const counts = boundsAt / 4 + index * boundWords + 3;
      return [memory[counts]!, memory[counts + 1]!];
    });
  }

  /**
   * For each label, how many of its postings are in `bits`, and in the upper 16 bits how many are in `others`. A bit of
   * `starts` is set where a label's postings begin; no label has 65,536.
   */
  countPostings(
    postings: Uint16Array,
    starts: Bitmap,
    labels: number,
    bits: Bitmap,
    others: Bitmap,
  ): Uint32Array {
    const memory = this.#memory;
    const counts = countsAt / 4 + 1;
    memory.fill(0, counts, counts + labels);
    memory.set(bits, resultAt / 4);
    memory.set(others, otherAt / 4);
    memory.set(starts, startsAt / 4);
    new Uint16Array(memory.buffer, postingsAt).set(postings);
    const end = postingsAt + postings.byteLength;
    if (postings.length > 0)
      this.#loops.countPostings(resultAt, otherAt, postingsAt, end, startsAt, countsAt);
    return memory.slice(counts, counts + labels);
  }

  /** The number of bits set. */
  countBits(bitmap: Bitmap): number {
    return this.countFrom(none, [0], bitmap, bitmap)[0]![0];
  }

  /** Clears in the bitmap at `address`, which has so many words, every bit whose value is not in the range. */
  #keepRange(address: number, slices: Uint32Array, words: number, { low, end }: ValueRange): void {
    this.#keepFrom(address, slices, words, low, 0);
    if (end !== undefined) this.#keepFrom(address, slices, words, end, -1);
  }

  /** Keeps the values from `bound` up, or with -1 for `flip` those below it. */
  #keepFrom(address: number, slices: Uint32Array, words: number, bound: number, flip: number): void {
    if (bound === 0) return;
    const first = lowestSlice(bound);
    const stride = words * 4;
    this.#loops.keepFrom(
      address,
      blocksEnd(address, words),
      slicesAt + first * stride,
      stride,
      slices.length / words - first,
      bound >>> first,
      flip,
    );
  }

  /**
   * Clears in the bitmap at `address` every bit that is set in the one at `others`: as a slice, its values are below 1.
   */
  #clear(address: number, others: number, words: number): void {
    this.#loops.keepFrom(address, blocksEnd(address, words), others, 0, 1, 1, -1);
  }

  /** Copies a bitmap and fills its last block with zeros, whose end comes back. */
  #put(address: number, bitmap: Bitmap): number {
    const end = blocksEnd(address, bitmap.length);
    this.#memory.set(bitmap, address / 4);
    this.#memory.fill(0, address / 4 + bitmap.length, end / 4);
    return end;
  }
}

/** The slices below a bound's lowest 1 do not matter, because all values are at least 0. */
function lowestSlice(bound: number): number {
  return bound === 0 ? 0 : 31 - Math.clz32(bound & -bound);
}

function blocksEnd(address: number, words: number): number {
  return address + Math.ceil((words * 4) / blockBytes) * blockBytes;
}

function fastestLoops(): SliceLoops {
  try {
    return simdLoops();
  } catch {
    return plainLoops();
  }
}

/** Shared by all filters and facets. It keeps nothing from one call to the next. */
export const sliceKernel = new SliceKernel(fastestLoops());
