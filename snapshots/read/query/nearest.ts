/** Longer texts are never near misses, and the distance costs the product of the lengths. */
const maxLength = 60;

/**
 * The candidate that a text was probably meant to be, in any letter case: one typing error in three characters, at
 * least one. Undefined when none is that near.
 */
export function nearest(text: string, candidates: readonly string[]): string | undefined {
  if (text.length > maxLength) return undefined;
  const distances = candidates.map((candidate) => ({
    candidate,
    errors: typingErrors(text.toLowerCase(), candidate.toLowerCase()),
  }));
  const best = distances.toSorted((a, b) => a.errors - b.errors)[0];
  return best && best.errors <= Math.max(1, Math.floor(text.length / 3)) ? best.candidate : undefined;
}

/**
 * How many characters have to be put in, left out, replaced or swapped with their neighbour to make one text of the
 * other (optimal string alignment: no character is touched twice).
 */
export function typingErrors(from: string, to: string): number {
  let [beforeLast, last]: number[][] = [[], Array.from({ length: to.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = last![column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current[column] = Math.min(
        replaced,
        last![column]! + 1,
        current[column - 1]! + 1,
        swapped && row > 1 && column > 1 ? beforeLast![column - 2]! + 1 : replaced,
      );
    }
    [beforeLast, last] = [last!, current];
  }
  return last![to.length]!;
}
