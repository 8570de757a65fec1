import { meanings } from "../../../../../schemas/meanings.ts";
import type { HistoricalMarket } from "../../../../../schemas/records.ts";
import { Bar } from "../../charts/bar.tsx";
import { tiers } from "../../model/words.ts";
import { Term } from "../../parts/meaning.tsx";
import { Facts, Moment, OutsideLink, Tier } from "../../parts/text.tsx";
import { Signal } from "./signal.tsx";

export const Details = ({ market }: { market: HistoricalMarket }) => (
  <>
    <Summary market={market} />
    <h2>Six risk signals</h2>
    <p class="quiet">{meanings.marketDimension.meaning}</p>
    <ul class="signals">
      {market.dimensions.map((dimension) => (
        <Signal key={dimension.key} dimension={dimension} />
      ))}
    </ul>
    <h2>Record</h2>
    <Facts
      rows={[
        ["Category", <bdi>{market.category}</bdi>],
        ["Formula version", market.formulaVersion],
        ["Weight version", market.weightVersion],
        ["Name in addresses", <span class="broken">{market.slug}</span>],
        ["Identifier", <code>{market.id}</code>],
      ]}
    />
  </>
);

const Summary = ({ market }: { market: HistoricalMarket }) => (
  <div class={`summary tier-${tiers.indexOf(market.tier) + 1}`}>
    <div class="headline">
      <p class="bri">
        <b class="big">{market.composite}</b>
        <span class="of">
          <Term about="composite">Composite</Term> of 300 to 1,000
        </span>
      </p>
      <Bar value={market.composite - 300} max={700} />
      <p class="tags">
        <Tier name={market.tier} />
        {market.disputed && <span class="disputed">Disputed</span>}
      </p>
    </div>
    <Facts
      rows={[
        [
          "Resolved",
          <>
            <b>
              <bdi>{market.resolvedOutcome}</bdi>
            </b>
            , <Moment iso={market.resolvedAt} />
          </>,
        ],
        [<Term about="disputed">Disputed</Term>, market.disputed ? "Yes" : "No"],
        [<Term about="topRiskDriver">Main risk driver</Term>, <bdi>{market.topRiskDriver}</bdi>],
        [<Term about="flaggedCount">Flagged items</Term>, market.flaggedCount],
        ["Resolution source", <OutsideLink address={market.resolutionSource} />],
      ]}
    />
  </div>
);
