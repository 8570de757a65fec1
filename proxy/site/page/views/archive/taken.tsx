import { facetAsked, filtersOf, othersOf, scores } from "../../model/filters.ts";
import { counted, spoken } from "../../model/words.ts";
import type { Taken } from "../../parts/take-along.tsx";
import type { FacetAnswer } from "./answers.ts";
import { SpanPicture, spansOf, totalOf } from "./span-picture.tsx";

const [composite = "", ...signals] = scores;

/** The histograms that can be saved and cited. */
export const chartsOf = (answers: Record<string, FacetAnswer>): Taken[] =>
  ["month", composite, ...signals].flatMap((facet) => {
    const answer = answers[facet];
    if (!answer) return [];
    const { query, counts } = answer;
    const filters = othersOf(facet, filtersOf(query));
    const spans = spansOf(counts);
    return [
      {
        name: `markets-by-${facet}`,
        title: `Resolved markets by ${spoken(facet).toLowerCase()}`,
        filters,
        n: counted(totalOf(spans), "market"),
        picture: () => <SpanPicture {...{ facet, spans, query: filters, log: false }} />,
        asked: () => [facetAsked(facet, filters)],
      },
    ];
  });
