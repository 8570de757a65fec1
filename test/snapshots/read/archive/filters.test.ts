import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MarketFacets } from "../../../../schemas/envelopes.ts";
import { facetNames } from "../../../../schemas/filters.ts";
import { combinations } from "../../../helpers/archive/combinations.ts";
import { plainFacet, plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { testFields, testFilters } from "../../../helpers/archive/served-check.ts";
import { serveSample } from "../../../helpers/http/archive-served.ts";

const everything = { filters: {}, page: 1, pageSize: 1 };

describe.each([
  ["2,000 markets", { filters: 20, facets: 15 }, { markets: 2_000, seed: 1 }],
  [
    "more labels than most have markets",
    { filters: 10, facets: 10 },
    { markets: 1_200, seed: 2, outcomes: 900 },
  ],
])("of a sample of %s", (_, runs, sample) => {
  const served = serveSample(sample);
  if (sample.seed === 1) testFields(served);
  testFilters(served, runs.filters);

  test("drawn conditions match some markets often, and sometimes none", async () => {
    const sources = await served.expected();
    // Drawn alike in every run: a share of random draws would now and then be small by chance.
    const drawn = fc.sample(combinations(served.markets), { numRuns: 100, seed: 1 });
    const totals = drawn.map(({ filters }) => plainFilter(sources, filters).length);
    const some = totals.filter((total) => total > 0 && total < sources.length);
    expect([some.length > 30, totals.includes(0)]).toEqual([true, true]);
  });

  test(`facets under ${runs.facets} combinations are counted as the sources have them`, async () => {
    const sources = await served.expected();
    const limit = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(undefined, 1000));
    const by = fc.shuffledSubarray([...facetNames], { minLength: 1, maxLength: 4 });
    const asked = fc.record({ combination: combinations(served.markets), limit, by });
    await fc.assert(
      fc.asyncProperty(asked, async ({ combination: { filters }, limit, by }) => {
        const limited = limit === undefined ? {} : { limit };
        const answer = await served.proxy.facets({ ...filters, by: by.join(","), ...limited });
        MarketFacets.parse(answer);
        const found = plainFilter(sources, filters);
        expect(answer.total).toBe(found.length);
        expect(Object.keys(answer.facets)).toEqual(by);
        for (const name of by) {
          const expected = plainFacet(name, found, limit ?? 100);
          expect(JSON.stringify(answer.facets[name])).toBe(JSON.stringify(expected));
        }
      }),
      {
        numRuns: runs.facets,
        // More labels than are put in order at a time.
        examples: [
          [{ combination: everything, limit: 1, by: ["outcome"] }],
          [{ combination: everything, limit: 12, by: ["outcome"] }],
        ],
      },
    );
  });
});
