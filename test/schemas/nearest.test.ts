import fc from "fast-check";
import { expect, test } from "vitest";
import { typingErrors } from "../../schemas/nearest.ts";

// Which of several words is near enough to be meant is in test/proxy/corpus.txt.

const word = fc.string({ unit: fc.constantFrom(..."abc"), maxLength: 7 });

/** The definition itself: the least of what the four ways to end an alignment cost. */
function defined(from: string, to: string): number {
  if (from === "" || to === "") return from.length + to.length;
  const [shorterFrom, shorterTo] = [from.slice(0, -1), to.slice(0, -1)];
  const same = from.at(-1) === to.at(-1) ? 0 : 1;
  const ways = [
    defined(shorterFrom, to) + 1,
    defined(from, shorterTo) + 1,
    defined(shorterFrom, shorterTo) + same,
  ];
  if (from.length > 1 && to.length > 1 && from.at(-1) === to.at(-2) && from.at(-2) === to.at(-1))
    ways.push(defined(from.slice(0, -2), to.slice(0, -2)) + 1);
  return Math.min(...ways);
}

test("typingErrors(from, to) is what its definition says, in both directions", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."abc"), maxLength: 5 }), word, (from, to) => {
      expect(typingErrors(from, to)).toBe(defined(from, to));
      expect(typingErrors(to, from)).toBe(typingErrors(from, to));
      for (const most of [0, 1, 2]) {
        const errors = defined(from, to);
        expect(typingErrors(from, to, most)).toBe(errors > most ? Number.POSITIVE_INFINITY : errors);
      }
    }),
    { numRuns: 300 },
  );
});
