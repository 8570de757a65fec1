import { describe } from "vitest";
import { testFacets } from "../../helpers/archive-facet-check.ts";
import { serveSample } from "../../helpers/archive-served.ts";

describe("facets of a sample of 3,000 markets", () => {
  testFacets(serveSample({ markets: 3_000, seed: 3 }), 150);
});

describe("facets of a sample with more labels than most have markets", () => {
  testFacets(serveSample({ markets: 2_000, seed: 4, outcomes: 1_500 }), 100);
});
