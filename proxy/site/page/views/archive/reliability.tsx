import type { LabelFacet, ScoreFacet } from "../../../../../schemas/envelopes.ts";
import { forms, Intervals } from "../../charts/intervals.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { PlainTable, Scrolls, Term } from "../../components/text.tsx";
import { archiveAddress, type Counts, comparedIn, facetRequest, without } from "../../model/filters.ts";
import { differenceWords, shareWords, verdictOn, whole, wilson } from "../../model/statistics.ts";
import { counted, grouped, percent, percents, tiers } from "../../model/words.ts";

interface ReliabilityProps {
  query: URLSearchParams;
  filters: URLSearchParams;
  counts: Counts;
}

/** Whether low scores go with disputed resolutions: the share of disputed markets by composite and by tier. */
export function Reliability({ query, filters, counts }: ReliabilityProps) {
  const compared = comparedIn(query);
  const versions = (counts("formula_version", ofVersion(filters)) as LabelFacet).buckets;
  const all =
    compared.length > 0
      ? compared.map((version) => seriesOf(counts, ofVersion(filters, version), version))
      : [seriesOf(counts, whatever(filters), "All")];
  const [one, other] = all;
  if (!one) return null;
  // Without a market there is no share to draw, and 0 % would pass for one.
  const isEmpty = all.every(({ whole: { n } }) => n === 0);
  return (
    <>
      {all.map(({ name, composite }) => (
        <p key={name} class="measure verdict">
          {compared.length > 0 && (
            <b>
              <bdi>{name}</bdi>:{" "}
            </b>
          )}
          {verdictOn(composite)}
        </p>
      ))}
      {other && one.whole.n * other.whole.n > 0 && (
        <p>
          In all, {shareWords(one.whole)} of <bdi>{one.name}</bdi> were disputed, and{" "}
          {shareWords(other.whole)} of <bdi>{other.name}</bdi>.{" "}
          {differenceWords(one.whole, other.whole).words}
        </p>
      )}
      {!isEmpty && (
        <p class="quiet">
          Dots are the share of <Term about="disputed">disputed</Term> markets, bars their {marksOf(all)}{" "}
          Differences have intervals after Newcombe, and the trend is tested after Cochran and Armitage. A
          filter by dispute does not apply here.
        </p>
      )}
      {versions.length > 1 && <Versions query={query} all={versions.map(({ value }) => value)} />}
      {compared.length > 0 && (
        <p class="row quiet legend compared">
          {all.map(({ name }, index) => (
            <span key={name} class={forms[index]?.name}>
              {forms[index]?.symbol} <bdi>{name}</bdi>
            </span>
          ))}
        </p>
      )}
      {!isEmpty && (
        <>
          <Shares
            title="By composite, in steps of 50"
            facet="composite"
            names={one.composite.map(({ from }) => `${from}`)}
            {...{ all, filters, isCompared: compared.length > 0 }}
          />
          <Shares
            title="By tier"
            facet="tier"
            names={tiers}
            {...{ all, filters, isCompared: compared.length > 0 }}
          />
        </>
      )}
    </>
  );
}

function Versions({ query, all }: { query: URLSearchParams; all: readonly string[] }) {
  const compared = comparedIn(query);
  // A version is never compared with all versions, because they contain it.
  const pairWith = (version: string) => {
    if (compared.includes(version)) return compared;
    const beside = compared[0] ?? all.find((each) => each !== version);
    return compared.length > 0 ? [`${beside}`, version] : [version, `${beside}`];
  };
  const link = (pair: readonly string[], text: string, isCurrent: boolean) => {
    const address = without(query, ["compare"]);
    for (const version of pair) address.append("compare", version);
    return (
      <a key={text} href={archiveAddress(address)} aria-current={isCurrent ? "true" : undefined}>
        <bdi>{text}</bdi>
      </a>
    );
  };
  return (
    <p class="row quiet versions">
      <span>Compare formula versions: </span>
      {link([], "none", compared.length === 0)}
      {all.slice(0, 6).map((version) => link(pairWith(version), version, compared.includes(version)))}
    </p>
  );
}

/** What bars and the other marks of a picture are. */
const marksOf = ([one, other]: readonly Series[]) =>
  "95 % intervals after Wilson, and n the number of markets; hollow dots are of fewer than 30, and arrows with a " +
  "number are shares, or upper ends of intervals, above the picture." +
  (one && !other ? ` The dashed line is the share of all of them, ${percent(one.whole.share)}.` : "");

const columns = [
  ...["Group", "Formula"].map((title) => ({ title })),
  ...["Disputed", "95 % interval", "n"].map((title) => ({ title, number: true })),
];

interface SharesProps {
  title: string;
  facet: "composite" | "tier";
  names: readonly string[];
  all: readonly Series[];
  filters: URLSearchParams;
  isCompared: boolean;
}

function Shares({ title, facet, names, all, filters, isCompared }: SharesProps) {
  const [one, other] = all;
  if (!one) return null;
  const picture = (
    <Intervals
      names={names}
      all={all.map(({ shares }) => shares[facet])}
      {...(!other && { mean: one.whole.share })}
      label={`Share of disputed markets, ${title.toLowerCase()}. The table below has its numbers.`}
    />
  );
  return (
    <section class={isCompared ? "shares compared" : "shares"}>
      <h3>{title}</h3>
      {picture}
      <details>
        <summary>{title}, as a table</summary>
        <Scrolls label={`${title}, as a table`}>
          <PlainTable
            columns={columns}
            rows={names.flatMap((group, index) =>
              all.map(({ name, shares }) => {
                const estimate = shares[facet][index] ?? wilson(0, 0);
                const [share, low, high] = percents(estimate);
                const cells = estimate.n ? [share, `${low} to ${high}`] : ["–", "–"];
                return [group, name, ...cells, grouped(estimate.n)];
              }),
            )}
          />
        </Scrolls>
      </details>
      <TakeAlong
        name={`disputed-by-${facet}`}
        title={`Share of disputed markets by ${facet}`}
        n={(other ? `${grouped(one.whole.n)} and ` : "") + counted((other ?? one).whole.n, "market")}
        filters={isCompared ? ofVersion(filters) : one.filters}
        legend={all.map(({ name }, index) => ({
          class: `${forms[index]?.name}${isCompared ? " compared" : ""}`,
          shape: forms[index]?.shape,
          text: isCompared ? name : "share of disputed markets, with its 95 % interval after Wilson",
        }))}
        picture={() => (
          <div class={isCompared ? "compared" : ""}>
            {picture}
            <p>Bars are {marksOf(all)}</p>
          </div>
        )}
        requests={() =>
          all.map(({ name, filters: own }) => ({ ...facetRequest(facet, own), ...(other && { name }) }))
        }
      />
    </section>
  );
}

export function wantedFor(filters: URLSearchParams, versions: readonly string[]) {
  const groups = versions.length > 0 ? versions.map((each) => ofVersion(filters, each)) : [whatever(filters)];
  return [
    ["formula_version", ofVersion(filters)],
    ...groups.flatMap((each) => [
      ["composite", each],
      ["tier", each],
    ]),
  ] as [facet: string, filters: URLSearchParams][];
}

/** Filters for disputed markets and others. */
const whatever = (filters: URLSearchParams) => without(filters, ["disputed"]);

/** The same for one formula version, or for any. */
function ofVersion(filters: URLSearchParams, version?: string) {
  const others = without(whatever(filters), ["formula_version"]);
  if (version !== undefined) others.set("formula_version", version);
  return others;
}

/** The markets of a formula version, or of any, by their scores. */
type Series = ReturnType<typeof seriesOf>;

function seriesOf(counts: Counts, filters: URLSearchParams, name: string) {
  const { buckets: composite } = counts("composite", filters) as ScoreFacet;
  const { buckets } = counts("tier", filters) as LabelFacet;
  return {
    ...{ name, filters, composite, whole: whole(composite) },
    /** Of disputed markets, by a facet. */
    shares: {
      composite: composite.map(({ disputed, count }) => wilson(disputed, count)),
      tier: tiers.map((tier) => {
        const { count = 0, disputed = 0 } = buckets.find(({ value }) => value === tier) ?? {};
        return wilson(disputed, count);
      }),
    },
  };
}
