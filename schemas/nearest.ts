// Longer texts are never near misses.
const maxNameLength = 60;
// More typing errors make another word. A low bound also ends most comparisons early, even among thousands of slugs.
const maxErrors = 5;

/**
 * The candidate that was probably meant, in any letter case. Allows one typing error in three characters, at least one.
 * Undefined when none is that near.
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  if (text.length > maxNameLength) return undefined;
  const typed = text.toLowerCase();
  let most = Math.min(maxErrors, Math.max(1, Math.floor(text.length / 3)));
  let best: string | undefined;
  for (const candidate of candidates) {
    const errors = typingErrors(typed, candidate.toLowerCase(), most);
    if (errors <= most) [best, most] = [candidate, errors - 1];
  }
  return best;
}

/**
 * How many characters have to be inserted, left out, replaced or swapped with their neighbour to turn one text into the
 * other (optimal string alignment: no character is touched twice). Infinity when they are more than `most`.
 */
function typingErrors(from: string, to: string, most = Number.POSITIVE_INFINITY): number {
  if (Math.abs(from.length - to.length) > most) return Number.POSITIVE_INFINITY;
  let [beforeLast, last]: number[][] = [[], Array.from({ length: to.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    let least = row;
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = last![column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current[column] = Math.min(
        replaced,
        last![column]! + 1,
        current[column - 1]! + 1,
        swapped && row > 1 && column > 1 ? beforeLast![column - 2]! + 1 : replaced,
      );
      least = Math.min(least, current[column]!);
    }
    // No later row has less.
    if (least > most) return Number.POSITIVE_INFINITY;
    [beforeLast, last] = [last!, current];
  }
  const errors = last![to.length]!;
  return errors > most ? Number.POSITIVE_INFINITY : errors;
}
