import { describe } from "vitest";
import { testFilters } from "../../../helpers/archive/filter-check.ts";
import { serveSample } from "../../../helpers/http/archive-served.ts";

describe("filters of a sample of 3,000 markets", () => {
  testFilters(serveSample({ markets: 3_000, seed: 1 }), 110);
});

describe("filters of a sample with more labels than most have markets", () => {
  testFilters(serveSample({ markets: 1_200, seed: 2, outcomes: 900 }), 60);
});
