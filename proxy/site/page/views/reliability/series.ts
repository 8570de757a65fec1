import type { LabelFacet, ScoreFacet } from "../../../../../schemas/envelopes.ts";
import { type Counts, without } from "../../model/filters.ts";
import { type Estimate, wilson } from "../../model/statistics.ts";
import { whole } from "../../model/verdict.ts";
import { tiers } from "../../model/words.ts";

export function wantedFor(filters: URLSearchParams, versions: readonly string[]) {
  const shown = versions.length > 0 ? versions.map((each) => ofVersion(filters, each)) : [whatever(filters)];
  return [
    ["formula_version", ofVersion(filters)],
    ...shown.flatMap((each) => [
      ["composite", each],
      ["tier", each],
    ]),
  ] as [facet: string, filters: URLSearchParams][];
}

/** Filters for disputed markets and others. */
export const whatever = (filters: URLSearchParams) => without(filters, ["disputed"]);

/** The same for one formula version, or for any. */
export function ofVersion(filters: URLSearchParams, version?: string) {
  const others = without(whatever(filters), ["formula_version"]);
  if (version !== undefined) others.set("formula_version", version);
  return others;
}

/** The markets of a formula version, or of any, by their scores. */
export interface Series {
  name: string;
  filters: URLSearchParams;
  composite: ScoreFacet["buckets"];
  byScore: readonly Estimate[];
  byTier: readonly Estimate[];
  whole: Estimate;
}

export function seriesOf(counts: Counts, filters: URLSearchParams, name: string): Series {
  const { buckets: composite } = counts("composite", filters) as ScoreFacet;
  const { buckets } = counts("tier", filters) as LabelFacet;
  return {
    ...{ name, filters, composite, whole: whole(composite) },
    byScore: composite.map(({ disputed, count }) => wilson(disputed, count)),
    byTier: tiers.map((tier) => {
      const { count = 0, disputed = 0 } = buckets.find(({ value }) => value === tier) ?? {};
      return wilson(disputed, count);
    }),
  };
}
