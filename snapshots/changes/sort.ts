/** Waits between two pieces of a long computation, so that other requests get their turn. */
export type YieldLoop = () => Promise<void>;

/** Comparisons between two yields: about half a millisecond. */
export const atOnce = 8192;

/**
 * A stable merge sort. TypedArray.sort would take eight times the memory, and hold the event loop for a second with a
 * million indexes. A sorted run costs one comparison.
 */
export async function sortIndexes(
  indexes: Uint32Array,
  compare: (a: number, b: number) => number,
  yieldLoop?: YieldLoop,
): Promise<Uint32Array> {
  let [from, to] = [indexes, new Uint32Array(indexes.length) as Uint32Array];
  let compared = 0;
  for (let width = 1; width < indexes.length; width *= 2) {
    for (let start = 0; start < indexes.length; start += 2 * width) {
      const middle = Math.min(start + width, indexes.length);
      const end = Math.min(start + 2 * width, indexes.length);
      compared += 1;
      if (yieldLoop && compared % atOnce === 0) await yieldLoop();
      if (middle === end || compare(from[middle - 1]!, from[middle]!) <= 0) {
        to.set(from.subarray(start, end), start);
        continue;
      }
      let [left, right] = [start, middle];
      for (let at = start; at < end; at += 1) {
        const takesLeft = left < middle && (right >= end || compare(from[left]!, from[right]!) <= 0);
        to[at] = takesLeft ? from[left++]! : from[right++]!;
        compared += 1;
        if (yieldLoop && compared % atOnce === 0) await yieldLoop();
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

export function range(count: number): Uint32Array {
  const numbers = new Uint32Array(count);
  // Uint32Array.from would hold the event loop fifty times as long.
  for (let index = 0; index < count; index += 1) numbers[index] = index;
  return numbers;
}
