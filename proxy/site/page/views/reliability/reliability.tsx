import type { LabelFacet } from "../../../../../schemas/envelopes.ts";
import { Term } from "../../components/meaning.tsx";
import { archiveAddress, type Counts, comparedIn, without } from "../../model/filters.ts";
import { differenceWords, shareWords, verdictOn } from "../../model/verdict.ts";
import { percent, tiers } from "../../model/words.ts";
import { marks, ofVersion, Shares, seriesOf, whatever } from "./shares.tsx";

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
        <p key={name} class="verdict">
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
          Dots are the share of <Term about="disputed">disputed</Term> markets, bars their 95 % intervals
          after Wilson, and n the number of markets; {marks}{" "}
          {!other && `The dashed line is the share of all of them, ${percent(one.whole.share)}. `}
          Differences have intervals after Newcombe, and the trend is tested after Cochran and Armitage. A
          filter by dispute does not apply here.
        </p>
      )}
      {versions.length > 1 && <Versions query={query} all={versions.map(({ value }) => value)} />}
      {compared.length > 0 && (
        <p class="legend compared">
          {all.map(({ name }, index) => (
            <span key={name} class={["first", "second"][index]}>
              {["●", "◆"][index]} <bdi>{name}</bdi>
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
            kind="byScore"
            {...{ all, filters, isCompared: compared.length > 0 }}
          />
          <Shares
            title="By tier"
            facet="tier"
            names={tiers}
            kind="byTier"
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
    <p class="versions">
      <span>Compare formula versions: </span>
      {link([], "none", compared.length === 0)}
      {all.slice(0, 6).map((version) => link(pairWith(version), version, compared.includes(version)))}
    </p>
  );
}
