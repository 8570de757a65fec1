import { type Bitmap, clearBits, popCount, setRange, wordsFor } from "./bitmap.ts";

// Filters and facets spend their time in two loops over bit slices. WebAssembly runs them on 128 bits at a time.
// Bitmaps and slices are copied into its memory; copying a column takes no longer than comparing it once. Columns
// cannot stay there: V8 reserves gigabytes of addresses for each memory, and one memory for all would have to be
// managed by hand.

/** The loops and their memory. Addresses are in bytes; slice-kernel.wat says what each loop does. */
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
}

const memoryBytes = 5 * 65_536;
// The memory begins with a bitmap of 65,536 bits, the most that a segment has. Two more follow, with which ranges are
// put together, or another bitmap to count in; then up to 32 slices of the same size.
const bitmapBytes = 8192;
const [resultAt, partAt, restAt, slicesAt] = [0, bitmapBytes, bitmapBytes * 2, bitmapBytes * 3];
// Then up to 512 bounds of a count, and the bytes that counting needs. Last comes a bitmap of which no bit is ever set.
const boundsAt = slicesAt + bitmapBytes * 32;
const boundWords = 8;
const noneAt = boundsAt + 512 * boundWords * 4 + 128;
// Bytes that a loop works on at a time. The last block of a slice reaches into what follows it.
const [keptBytes, countedBytes] = [64, 128];

/** From `low` (inclusive) to `end` (exclusive; undefined: no end). */
export interface ValueRange {
  low: number;
  end: number | undefined;
}

/** Keeps the ordinals whose value is in one of the ranges, and those that are listed. */
export interface ColumnCondition {
  /** Bit slices, as many as the bounds have bits or more. */
  slices: Uint32Array;
  ranges: readonly ValueRange[];
  ordinals: readonly Uint16Array[];
}

/** Counts how many values are at least `width`, at least twice that, and so on up to `bounds` times. */
export interface CountedColumn {
  slices: Uint32Array;
  width: number;
  bounds: number;
}

/** Counts every ordinal, since no value is below 0. */
export const everyValue: CountedColumn = { slices: new Uint32Array(), width: 0, bounds: 1 };

/** In plain TypeScript, for machines without SIMD and for comparison in tests. */
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
  };
}

/** The bits of a word whose values are at least the bound. The word's slices begin at `at`. */
function boundedWord(words: Uint32Array, at: number, stride: number, count: number, bound: number): number {
  let kept = -1;
  for (let slice = 0; slice < count; slice += 1) {
    const bits = words[(at + slice * stride) >>> 2]!;
    kept = (bound >>> slice) & 1 ? kept & bits : kept | bits;
  }
  return kept;
}

// TypeScript declares WebAssembly for browsers only.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: unknown };
};

/** slice-kernel.wat, assembled. A test assembles it again and compares. */
export const simdBytes = Uint8Array.from(
  atob(
    "AGFzbQEAAAABCwFgB39/f39/f38AAwMCAAAFAwEABQchAwZtZW1vcnkCAAhrZWVwRnJvbQAACWNvdW50RnJvbQABCrIKAsYCAgN/BXsgBv0RIQ4DQCAA/QAEACAA/QAEEP1QIAD9AAQgIAD9AAQw/VD9UP1TBED9DP////////////////////8hCiAKIQsgCiEMIAohDSACIQcgBSEIIAQhCQNAIAhBAXEEQCAKIAf9AAQA/U4hCiALIAf9AAQQ/U4hCyAMIAf9AAQg/U4hDCANIAf9AAQw/U4hDQUgCiAH/QAEAP1QIQogCyAH/QAEEP1QIQsgDCAH/QAEIP1QIQwgDSAH/QAEMP1QIQ0LIAcgA2ohByAIQQF2IQggCUEBayIJDQALIAAgAP0ABAAgCiAO/VH9Tv0LBAAgACAA/QAEECALIA79Uf1O/QsEECAAIAD9AAQgIAwgDv1R/U79CwQgIAAgAP0ABDAgDSAO/VH9Tv0LBDALIAJBwABqIQIgAEHAAGoiACABSQ0ACwvnBwIFfwh7A0AgAP0ABAAgAP0ABBD9UCAA/QAEICAA/QAEMP1Q/VAgAP0ABEAgAP0ABFD9UCAA/QAEYCAA/QAEcP1Q/VD9UP1TBEAgAv0ABAAgAv0ABBD9UCAC/QAEICAC/QAEMP1Q/VAgAv0ABEAgAv0ABFD9UCAC/QAEYCAC/QAEcP1Q/VD9UP1TIQsgBSEHA0D9DP////////////////////8hDCAMIQ0gDCEOIAwhDyAMIRAgDCERIAwhEiAMIRMgAyAHKAIAaiEIIAcoAgghCSAHKAIEIgoEQANAIAlBAXEEQCAMIAj9AAQA/U4hDCANIAj9AAQQ/U4hDSAOIAj9AAQg/U4hDiAPIAj9AAQw/U4hDyAQIAj9AARA/U4hECARIAj9AARQ/U4hESASIAj9AARg/U4hEiATIAj9AARw/U4hEwUgDCAI/QAEAP1QIQwgDSAI/QAEEP1QIQ0gDiAI/QAEIP1QIQ4gDyAI/QAEMP1QIQ8gECAI/QAEQP1QIRAgESAI/QAEUP1QIREgEiAI/QAEYP1QIRIgEyAI/QAEcP1QIRMLIAggBGohCCAJQQF2IQkgCkEBayIKDQALCyAGIAwgAP0ABAD9Tv0LBAAgBiANIAD9AAQQ/U79CwQQIAYgDiAA/QAEIP1O/QsEICAGIA8gAP0ABDD9Tv0LBDAgBiAQIAD9AARA/U79CwRAIAYgESAA/QAEUP1O/QsEUCAGIBIgAP0ABGD9Tv0LBGAgBiATIAD9AARw/U79CwRwIAcgBygCDCAGKQMAeyAGKQMIe3wgBikDEHsgBikDGHt8fCAGKQMgeyAGKQMoe3wgBikDMHsgBikDOHt8fHwgBikDQHsgBikDSHt8IAYpA1B7IAYpA1h7fHwgBikDYHsgBikDaHt8IAYpA3B7IAYpA3h7fHx8fKdqNgIMIAsEQCAGIAwgAv0ABAD9Tv0LBAAgBiANIAL9AAQQ/U79CwQQIAYgDiAC/QAEIP1O/QsEICAGIA8gAv0ABDD9Tv0LBDAgBiAQIAL9AARA/U79CwRAIAYgESAC/QAEUP1O/QsEUCAGIBIgAv0ABGD9Tv0LBGAgBiATIAL9AARw/U79CwRwIAcgBygCECAGKQMAeyAGKQMIe3wgBikDEHsgBikDGHt8fCAGKQMgeyAGKQMoe3wgBikDMHsgBikDOHt8fHwgBikDQHsgBikDSHt8IAYpA1B7IAYpA1h7fHwgBikDYHsgBikDaHt8IAYpA3B7IAYpA3h7fHx8fKdqNgIQCyAHQSBqIgcgBkkNAAsLIANBgAFqIQMgAkGAAWohAiAAQYABaiIAIAFJDQALCw==",
  ),
  (byte) => byte.charCodeAt(0),
);

/** Throws where WebAssembly is switched off or has no SIMD. */
export function simdLoops(): SliceLoops {
  return new WebAssembly.Instance(new WebAssembly.Module(simdBytes)).exports as SliceLoops;
}

/** Compares and counts the values of a column of 1 to 65,536 markets in bit slices. */
export class SliceKernel {
  readonly #loops: SliceLoops;
  readonly #memory: Uint32Array;

  constructor(loops: SliceLoops) {
    this.#loops = loops;
    this.#memory = new Uint32Array(loops.memory.buffer);
  }

  /**
   * The ordinals from `from` (inclusive) to `to` (exclusive) that all conditions keep, and how many they are; without
   * `bits` there are none.
   */
  select(markets: number, from: number, to: number, conditions: readonly ColumnCondition[]) {
    const memory = this.#memory;
    const words = wordsFor(markets);
    const end = blocksEnd(resultAt, words, countedBytes);
    memory.fill(0, resultAt / 4, end / 4);
    setRange(memory, from, to);
    for (const condition of conditions) this.#keep(condition, words);
    const tableEnd = this.#putBounds(0, 0, 0, 1);
    this.#loops.countFrom(resultAt, end, noneAt, slicesAt, 0, boundsAt, tableEnd);
    const count = memory[boundsAt / 4 + 3]!;
    return { count, bits: count > 0 ? memory.slice(resultAt / 4, resultAt / 4 + words) : undefined };
  }

  #keep({ slices, ranges, ordinals }: ColumnCondition, words: number): void {
    const memory = this.#memory;
    // No bound looks at lower slices.
    const lowest = lowestSlice(ranges.reduce((bits, { low, end = 0 }) => bits | low | end, 0)) * words;
    memory.set(lowest === 0 ? slices : slices.subarray(lowest), slicesAt / 4 + lowest);
    if (ranges.length === 1 && ordinals.length === 0) {
      this.#keepRange(resultAt, slices, words, ranges[0]!);
      return;
    }
    // `rest` loses every range and list; then the result loses the rest.
    const end = blocksEnd(resultAt, words);
    memory.copyWithin(restAt / 4, resultAt / 4, end / 4);
    for (const range of ranges) {
      memory.copyWithin(partAt / 4, resultAt / 4, end / 4);
      this.#keepRange(partAt, slices, words, range);
      this.#clear(restAt, partAt, words);
    }
    for (const list of ordinals) clearBits(memory.subarray(restAt / 4), list);
    this.#clear(resultAt, restAt, words);
  }

  /**
   * For each bound of each column a pair of counts: how many of `bits` have at least that value, and how many of those
   * are in `marks` too. Bounds have no more bits than their column has slices.
   */
  countColumns(bits: Bitmap, marks: Bitmap, columns: readonly CountedColumn[]): Uint32Array {
    const counts = new Uint32Array(columns.reduce((sum, { bounds }) => sum + bounds * 2, 0));
    const [memory, words] = [this.#memory, bits.length];
    const end = blocksEnd(resultAt, words, countedBytes);
    memory.set(bits, resultAt / 4);
    for (let word = 0; word < words; word += 1) memory[partAt / 4 + word] = bits[word]! & marks[word]!;
    for (const at of [resultAt, partAt]) memory.fill(0, at / 4 + words, (at + end - resultAt) / 4);
    let place = 0;
    for (const { slices, width, bounds } of columns) {
      if (bounds === 0) continue;
      memory.set(slices, slicesAt / 4);
      const tableEnd = this.#putBounds(slices.length / words, words, width, bounds);
      this.#loops.countFrom(resultAt, end, partAt, slicesAt, words * 4, boundsAt, tableEnd);
      for (let entry = boundsAt / 4; entry < tableEnd / 4; entry += boundWords, place += 2) {
        counts[place] = memory[entry + 3]!;
        counts[place + 1] = memory[entry + 4]!;
      }
    }
    return counts;
  }

  /** Writes the table of multiples of a width. Returns where it ends. */
  #putBounds(slices: number, words: number, width: number, bounds: number): number {
    const memory = this.#memory;
    let at = boundsAt / 4;
    for (let [bound, boundsLeft] = [width, bounds]; boundsLeft > 0; bound += width, boundsLeft -= 1) {
      const first = lowestSlice(bound);
      memory[at] = first * words * 4;
      memory[at + 1] = slices - first;
      memory[at + 2] = bound >>> first;
      memory[at + 3] = 0;
      memory[at + 4] = 0;
      at += boundWords;
    }
    return at * 4;
  }

  countBits(bitmap: Bitmap): number {
    return this.countColumns(bitmap, bitmap, [everyValue])[0]!;
  }

  /** Clears in the bitmap at `address` every bit whose value is not in the range. */
  #keepRange(address: number, slices: Uint32Array, words: number, { low, end }: ValueRange): void {
    this.#keepFrom(address, slices, words, low, 0);
    if (end !== undefined) this.#keepFrom(address, slices, words, end, -1);
  }

  /** Keeps the values from `bound` up; with -1 for `flip` those below it. */
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
   * Clears in the bitmap at `address` the bits that are set in the one at `others`: as a slice, their values are not
   * below 1.
   */
  #clear(address: number, others: number, words: number): void {
    this.#loops.keepFrom(address, blocksEnd(address, words), others, 0, 1, 1, -1);
  }
}

/** Slices below a bound's lowest 1 do not matter, because all values are at least 0. */
function lowestSlice(bound: number): number {
  return bound === 0 ? 0 : 31 - Math.clz32(bound & -bound);
}

function blocksEnd(address: number, words: number, blockBytes = keptBytes): number {
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
