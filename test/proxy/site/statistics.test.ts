import { describe, expect, test } from "vitest";
import { difference, trend, verdictOn, wilson } from "../../../proxy/site/page/model/statistics.ts";

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

  test("of two shares, which are told apart by their difference, not by whether their intervals overlap", () => {
    const [low, high] = [wilson(135, 5000), wilson(100, 5000)];
    expect(low.low).toBeLessThan(high.high);
    const found = trend([135, 100].map((hits) => ({ hits, n: 5000 })));
    // Over two groups it is the test of two shares.
    const deviations = (low.share - high.share) / Math.sqrt(((235 / 10_000) * (1 - 235 / 10_000) * 2) / 5000);
    expect(found.z).toBeCloseTo(-deviations, 10);
    const step = { to: 0, count: 5000 };
    expect(
      verdictOn([
        { ...step, from: 600, disputed: 135 },
        { ...step, from: 650, disputed: 100 },
      ]),
    ).toBe(
      "Below 650, 2.7 % (135 of 5,000) of the markets were disputed; from 650 on, 2 % (100 of 5,000). " +
        "The difference is +0.7 percentage points, with a 95 % interval from +0.1 to +1.3, which excludes 0. " +
        "Here a higher score goes with fewer disputes. " +
        "Over all steps the share falls as the score rises (p = 0.021).",
    );
  });

  test("of nothing: no trend", () => {
    for (const hits of [0, 5]) expect(trend(Array(2).fill({ hits, n: 5 }))).toEqual({ z: 0, p: 1 });
    for (const few of [[], [{ hits: 1, n: 5 }]]) expect(trend(few)).toEqual({ z: 0, p: 1 });
  });
});
