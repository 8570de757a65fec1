import type { MarketPage } from "../../../../schemas/envelopes.ts";
import { labelOf, marketAddress, valueWords } from "../model/filters.ts";
import { spoken, tiers } from "../model/words.ts";
import { nameOfState } from "./as-of.tsx";
import { Moment, Tier } from "./text.tsx";

/** A market in a list, with a link to its page in the snapshot that `asOf` selects. */
export const MarketItem = ({
  market: { id, question, category, composite, tier, resolvedOutcome, resolvedAt, disputed, topRiskDriver },
  asOf,
}: {
  market: MarketPage["markets"][number];
  asOf: string | null;
}) => (
  <li class={`market tier-${tiers.indexOf(tier) + 1}`}>
    <p class="composite" data-meaning="composite">
      <span class="unseen">Composite </span>
      <b>{composite}</b>
    </p>
    <div class="gist">
      <h3>
        <a class="question" dir="auto" href={marketAddress(id, asOf)}>
          {question}
        </a>
      </h3>
      <p class="tags">
        <Tier name={tier} />
        <span dir="auto">{category}</span>
        <span>
          Resolved{" "}
          <b>
            <bdi>{resolvedOutcome}</bdi>
          </b>
        </span>
        {disputed && <span class="disputed">Disputed</span>}
        {topRiskDriver !== "" && <span dir="auto">{topRiskDriver}</span>}
        <Moment iso={resolvedAt} />
      </p>
    </div>
  </li>
);

/** A filter in words. Texts of others keep their own direction. */
export function FilterWords({ name, value }: { name: string; value: string }) {
  const own = <bdi>{value}</bdi>;
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field)
    return (
      <>
        {spoken(field)} {end === "min" ? "≥" : "≤"} {own}
      </>
    );
  if (name === "q") return <>“{own}”</>;
  if (name === "disputed") return <>{valueWords(name, value)}</>;
  if (name === "asOf") return <>As of: {nameOfState(value)}</>;
  if (name === "tier") return <>Tier: {value.replaceAll(",", " or ")}</>;
  const label =
    name === "from" || name === "to" ? `Resolved ${name === "to" ? "up to" : name}` : `${labelOf(name)}:`;
  return (
    <>
      {label} {own}
    </>
  );
}
