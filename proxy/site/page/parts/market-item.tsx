import type { MarketPage } from "../../../../schemas/envelopes.ts";
import { marketAddress } from "../model/filters.ts";
import { tiers } from "../model/words.ts";
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
