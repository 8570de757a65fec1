import fc from "fast-check";
import { expect, test } from "vitest";
import { candidates, Matches } from "../../../../snapshots/read/archive/evaluate.ts";

/** How many markets a segment has, and which of them match: often all. */
const segment = fc.tuple(
  fc.integer({ min: 1, max: 40 }),
  fc.oneof(fc.constant(0), fc.nat(40)),
  fc.oneof(fc.constant(40), fc.nat(40)),
);
/** A segment of which one market matches, and one of which all do. */
const single: [number, number, number][] = [
  [3, 1, 2],
  [2, 0, 40],
];

test("matches of segments are found, counted and sliced as those of one list, newest first", () => {
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 4 }), fc.nat(40), fc.nat(40), (segments, skip, count) => {
      const starts = [0];
      for (const [markets] of segments) starts.push(starts.at(-1)! + markets);
      const matches = new Matches(
        segments.map(([markets, from, to]) => candidates(markets, from, Math.min(to, markets))),
        starts,
      );
      const ordinals = Array.from({ length: starts.at(-1)! }, (_, ordinal) => ordinal);
      const expected = ordinals.filter((ordinal) =>
        segments.some(([, from, to], index) => {
          const local = ordinal - starts[index]!;
          return ordinal < starts[index + 1]! && local >= from && local < to;
        }),
      );
      expect(matches.total).toBe(expected.length);
      expect(ordinals.filter((ordinal) => matches.has(ordinal))).toEqual(expected);
      expect(matches.has(ordinals.length)).toBe(false);
      expect(matches.slice(skip, count)).toEqual(expected.toReversed().slice(skip, skip + count));
      const counts = ordinals.map((ordinal) => expected.filter((each) => each >= ordinal).length);
      expect(ordinals.map((ordinal) => matches.countFrom(ordinal))).toEqual(counts);
    }),
    { examples: [[single, 0, 9]] },
  );
});
