import { describe, expect, test } from "vitest";
import { processShell } from "../../scripts/shell.ts";
import { median, quantile, summarise } from "./run/measurement.ts";
import { readOptions } from "./run/options.ts";

describe("figures", () => {
  test("are medians and quantiles", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([10, 1, 2, 3])).toBe(2.5);
    const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
    expect([0.5, 0.99, 1].map((share) => quantile(hundred, share))).toEqual([50, 99, 100]);
    expect(quantile([7], 0.01)).toBe(7);
    expect(() => median([])).toThrow(RangeError);
    expect(() => quantile([], 0.5)).toThrow(RangeError);
  });

  test.for([
    ["ratio", "least", 2, true],
    ["ratio", "least", 2.1, false],
    ["ratio", "most", 2, true],
    ["ratio", "most", 1.9, false],
    ["difference", "most", 5, true],
    ["difference", "most", 4.9, false],
    ["value", "most", 10, true],
    ["value", "least", 10.1, false],
  ] as const)("10 against 5 meet a goal or not: %s at %s %s", ([of, at, limit, met]) => {
    const peer = { name: "five", rounds: [4, 5, 9] };
    const goal = { of, at, limit };
    const summary = summarise({ row: 1, work: "w", unit: "ms", ours: [1, 10, 12], peer, goal });
    expect(summary).toEqual({ ours: 10, peer: 5, ratio: 2, met });
  });

  test("that cannot be told meet nothing", () => {
    const goal = { of: "ratio", at: "most", limit: 2 } as const;
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [1], goal }).met).toBe(false);
    const peer = { name: "nothing", rounds: [0] };
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [0], peer, goal }).met).toBe(false);
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [Number.NaN], peer, goal }).met).toBe(false);
  });
});

test("a wrong command line is refused before anything starts", () => {
  const read = (values: Parameters<typeof readOptions>[1]) => () => readOptions(processShell(), values);
  expect(read({ rows: "1,99" })).toThrow("--rows takes numbers of");
  expect(read({ markets: "many" })).toThrow("--markets must be an integer");
  expect(read({ rows: "1,11", markets: "2000" })()).toMatchObject({ markets: 2000 });
});
