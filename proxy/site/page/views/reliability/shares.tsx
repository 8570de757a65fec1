import type { LabelFacet, ScoreFacet } from "../../../../../schemas/envelopes.ts";
import { Intervals } from "../../charts/intervals.tsx";
import { ShareTable } from "../../components/share-table.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { type Counts, facetAsked, without } from "../../model/filters.ts";
import { type Estimate, wilson } from "../../model/statistics.ts";
import { whole } from "../../model/verdict.ts";
import { counted, grouped, percent, tiers } from "../../model/words.ts";

export const marks =
  "hollow dots are of fewer than 30, and arrows with a number are shares, or upper ends of intervals, above the picture.";

interface SharesProps {
  title: string;
  facet: string;
  names: readonly string[];
  kind: "byScore" | "byTier";
  all: readonly Series[];
  filters: URLSearchParams;
  isCompared: boolean;
}

export function Shares({ title, facet, names, kind, all, filters, isCompared }: SharesProps) {
  const [one, other] = all;
  if (!one) return null;
  const picture = (
    <Intervals
      names={names}
      first={one[kind]}
      {...(other ? { second: other[kind] } : { mean: one.whole.share })}
      label={`Share of disputed markets, ${title.toLowerCase()}. The table below has its numbers.`}
    />
  );
  return (
    <section class={isCompared ? "shares compared" : "shares"}>
      <h3>{title}</h3>
      {picture}
      <details>
        <summary>{title}, as a table</summary>
        <ShareTable title={title} names={names} series={all.map((each) => [each.name, each[kind]])} />
      </details>
      <TakeAlong
        name={`disputed-by-${facet}`}
        title={`Share of disputed markets by ${facet}`}
        n={(other ? `${grouped(one.whole.n)} and ` : "") + counted((other ?? one).whole.n, "market")}
        filters={isCompared ? ofVersion(filters) : one.filters}
        legend={all.map(({ name }, index) => ({
          class: `${["first", "second"][index]}${isCompared ? " compared" : ""}`,
          shape: index === 0 ? "dot" : "diamond",
          text: isCompared ? name : "share of disputed markets, with its 95 % interval after Wilson",
        }))}
        picture={() => (
          <div class={isCompared ? "compared" : ""}>
            {picture}
            <p>
              Bars are 95 % intervals after Wilson, and n the number of markets; {marks}
              {!other && ` The dashed line is the share of all of them, ${percent(one.whole.share)}.`}
            </p>
          </div>
        )}
        asked={() =>
          all.map(({ name, filters: own }) => ({ ...facetAsked(facet, own), ...(other && { name }) }))
        }
      />
    </section>
  );
}

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
interface Series {
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
