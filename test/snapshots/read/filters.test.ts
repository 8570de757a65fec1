import { describe } from "vitest";
import { testFilters } from "../../helpers/archive-filter-check.ts";
import { serveSample } from "../../helpers/archive-served.ts";

describe("filters of a sample of 5,000 markets", () => {
  testFilters(serveSample({ markets: 5_000, seed: 1 }), 200);
});

describe("filters of a sample with more labels than most have markets", () => {
  testFilters(serveSample({ markets: 2_000, seed: 2, outcomes: 1_500 }), 100);
});
