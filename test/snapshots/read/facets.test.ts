import { describe } from "vitest";
import { testFacets } from "../../helpers/archive/archive-facet-check.ts";
import { serveSample } from "../../helpers/http/archive-served.ts";

describe("facets of a sample of 2,000 markets", () => {
  testFacets(serveSample({ markets: 2_000, seed: 3 }), 80);
});

describe("facets of a sample with more labels than most have markets", () => {
  testFacets(serveSample({ markets: 1_200, seed: 4, outcomes: 900 }), 50);
});
