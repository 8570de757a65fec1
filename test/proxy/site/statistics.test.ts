import { describe, expect, test } from "vitest";
import { difference, trend, wilson } from "../../../proxy/site/page/model/statistics.ts";

describe("the site's statistics have the published values", () => {
  // R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table
  // I.
  test.each([
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ])("of a share: %i of %i", (hits, n, low, high) => {
    const estimate = wilson(hits, n);
    expect(estimate.share).toBe(hits / n);
    expect([estimate.low, estimate.high].map((end) => Number(end.toFixed(4)))).toEqual([low, high]);
  });

  // R. G. Newcombe, Interval estimation for the difference between independent proportions, ibid., table II, method 10.
  test.each([
    [56, 70, 48, 80, 0.0524, 0.3339],
    [9, 10, 3, 10, 0.1705, 0.809],
    [6, 7, 2, 7, 0.0582, 0.8062],
    [5, 56, 0, 29, -0.0381, 0.1926],
    [0, 10, 0, 20, -0.1611, 0.2775],
    [0, 10, 0, 10, -0.2775, 0.2775],
    [10, 10, 0, 20, 0.6791, 1],
    [10, 10, 0, 10, 0.6075, 1],
  ])("of a difference: %i of %i and %i of %i", (a, m, b, n, low, high) => {
    const found = difference(wilson(a, m), wilson(b, n));
    expect(found.value).toBeCloseTo(a / m - b / n, 12);
    expect([found.low, found.high].map((end) => Number(end.toFixed(4)))).toEqual([low, high]);
  });

  test("of a trend: prop.trend.test of R on its example of smokers", () => {
    const [hits, n] = [
      [83, 90, 129, 70],
      [86, 93, 136, 82],
    ] as const;
    const found = trend(hits.map((each, place) => ({ hits: each, n: n[place]! })));
    expect(found.z ** 2).toBeCloseTo(8.2249, 4);
    expect(found.z).toBeLessThan(0);
    expect(found.p).toBeCloseTo(0.004132, 6);
  });

  test("of a trend over two groups, where it is the test of two shares", () => {
    // The intervals of these two overlap, and yet they differ.
    const [low, high] = [wilson(135, 5000), wilson(100, 5000)];
    expect(low.low).toBeLessThan(high.high);
    expect(difference(low, high).low).toBeGreaterThan(0);
    const pooled = 235 / 10_000;
    const deviations = (low.share - high.share) / Math.sqrt((pooled * (1 - pooled) * 2) / 5000);
    const found = trend([
      { hits: 135, n: 5000 },
      { hits: 100, n: 5000 },
    ]);
    expect(found.z).toBeCloseTo(-deviations, 10);
    expect(found.p).toBeCloseTo(0.0209, 4);
  });

  test("of nothing: no trend", () => {
    for (const hits of [0, 5]) expect(trend(Array(2).fill({ hits, n: 5 }))).toEqual({ z: 0, p: 1 });
    for (const few of [[], [{ hits: 1, n: 5 }]]) expect(trend(few)).toEqual({ z: 0, p: 1 });
  });
});
