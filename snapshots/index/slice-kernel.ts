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
  countBoth(a: number, b: number, end: number): number;
}

const memoryBytes = 5 * 65_536;
// Two bitmaps of 65,536 bits, the most that a segment has, then up to 32 slices.
const [resultAt, otherAt, slicesAt] = [0, 8192, 16_384];
const blockBytes = 64;

/** The loops in plain TypeScript, for machines without SIMD and for comparison in tests. */
export function plainLoops(): SliceLoops {
  const buffer = new ArrayBuffer(memoryBytes);
  const words = new Uint32Array(buffer);
  return {
    memory: { buffer },
    keepFrom(result, end, slices, stride, count, bound, flip) {
      for (let offset = 0; offset < end - result; offset += 4) {
        let kept = -1;
        for (let slice = 0; slice < count; slice += 1) {
          const bits = words[(slices + slice * stride + offset) >>> 2]!;
          kept = (bound >>> slice) & 1 ? kept & bits : kept | bits;
        }
        words[(result + offset) >>> 2]! &= kept ^ flip;
      }
    },
    countBoth(a, b, end) {
      let count = 0;
      for (let offset = 0; offset < end - a; offset += 4)
        count += popCount(words[(a + offset) >>> 2]! & words[(b + offset) >>> 2]!);
      return count;
    },
  };
}

// TypeScript declares it for browsers only.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: unknown };
};

/** slice-kernel.wat, assembled. A test assembles it again and compares. */
export const simdBytes = Buffer.from(
  "AGFzbQEAAAABEgJgB39/f39/f38AYAN/f38BfwMDAgABBQMBAAUHIQMGbWVtb3J5AgAIa2VlcEZyb20AAAljb3VudEJvdGgAAQrTAwLGAgIDfwV7IAb9ESEOA0AgAP0ABAAgAP0ABBD9UCAA/QAEICAA/QAEMP1Q/VD9UwRA/Qz/////////////////////IQogCiELIAohDCAKIQ0gAiEHIAUhCCAEIQkDQCAIQQFxBEAgCiAH/QAEAP1OIQogCyAH/QAEEP1OIQsgDCAH/QAEIP1OIQwgDSAH/QAEMP1OIQ0FIAogB/0ABAD9UCEKIAsgB/0ABBD9UCELIAwgB/0ABCD9UCEMIA0gB/0ABDD9UCENCyAHIANqIQcgCEEBdiEIIAlBAWsiCQ0ACyAAIAD9AAQAIAogDv1R/U79CwQAIAAgAP0ABBAgCyAO/VH9Tv0LBBAgACAA/QAEICAMIA79Uf1O/QsEICAAIAD9AAQwIA0gDv1R/U79CwQwCyACQcAAaiECIABBwABqIgAgAUkNAAsLiAEBAXsDQCADIAD9AAQAIAH9AAQA/U79YiAA/QAEECAB/QAEEP1O/WL9biAA/QAEICAB/QAEIP1O/WIgAP0ABDAgAf0ABDD9Tv1i/W79bv19/Y4BIQMgAUHAAGohASAAQcAAaiIAIAJJDQALIAP9fyEDIAP9GwAgA/0bAWogA/0bAiAD/RsDamoL",
  "base64",
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
   * Clears every bit in `result` whose value is not from `low` (inclusive) to `end` (exclusive; undefined: no end).
   * Bounds have no more bits than there are slices.
   */
  keepBetween(slices: Uint32Array, low: number, end: number | undefined, result: Bitmap): void {
    const { length } = result;
    this.#put(resultAt, result);
    this.#memory.set(slices, slicesAt / 4);
    this.#keepFrom(slices, length, low, 0);
    if (end !== undefined) this.#keepFrom(slices, length, end, -1);
    result.set(this.#memory.subarray(resultAt / 4, resultAt / 4 + length));
  }

  /**
   * How many of `bits`, and how many of those in `others` too, have a value of at least each bound. Bounds ascend, and
   * have no more bits than there are slices. The list ends early when no value is left.
   */
  countFrom(
    slices: Uint32Array,
    bounds: readonly number[],
    bits: Bitmap,
    others: Bitmap,
  ): [number, number][] {
    const end = this.#put(resultAt, bits);
    this.#put(otherAt, others);
    this.#memory.set(slices, slicesAt / 4);
    const counts: [number, number][] = [];
    for (const bound of bounds) {
      this.#keepFrom(slices, bits.length, bound, 0);
      const count = this.#loops.countBoth(resultAt, resultAt, end);
      if (count === 0) break;
      counts.push([count, this.#loops.countBoth(resultAt, otherAt, end)]);
    }
    return counts;
  }

  /** The number of bits set. */
  countBits(bitmap: Bitmap): number {
    return this.#loops.countBoth(resultAt, resultAt, this.#put(resultAt, bitmap));
  }

  /** Keeps the values from `bound` up, or with -1 for `flip` those below it. */
  #keepFrom(slices: Uint32Array, words: number, bound: number, flip: number): void {
    if (bound === 0) return;
    // All values are at least 0, so the slices below the bound's lowest 1 do not matter.
    const first = 31 - Math.clz32(bound & -bound);
    const stride = words * 4;
    this.#loops.keepFrom(
      resultAt,
      blocksEnd(resultAt, words),
      slicesAt + first * stride,
      stride,
      slices.length / words - first,
      bound >>> first,
      flip,
    );
  }

  /** Copies a bitmap and fills its last block with zeros, whose end comes back. */
  #put(address: number, bitmap: Bitmap): number {
    const end = blocksEnd(address, bitmap.length);
    this.#memory.set(bitmap, address / 4);
    this.#memory.fill(0, address / 4 + bitmap.length, end / 4);
    return end;
  }
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
