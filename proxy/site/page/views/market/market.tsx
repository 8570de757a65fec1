import type { ComponentChildren } from "preact";
import { meanings } from "../../../../../schemas/meanings.ts";
import type { HistoricalMarket } from "../../../../../schemas/records.ts";
import { Bar } from "../../charts/bar.tsx";
import { AsOf } from "../../components/as-of.tsx";
import { Closed } from "../../components/closed.tsx";
import { Loading } from "../../components/failure.tsx";
import { Term } from "../../components/meaning.tsx";
import { Facts, Moment, OutsideLink, Tier } from "../../components/text.tsx";
import { marketAddress } from "../../model/filters.ts";
import { go } from "../../model/router.ts";
import { useLoaded, useSite, useStored, useTitle } from "../../model/store.ts";
import { tiers } from "../../model/words.ts";
import { Proof } from "./proof.tsx";
import { Signal } from "./signal.tsx";

interface MarketProps {
  id: string;
  /** The snapshot's id or a time, where an earlier state is shown. */
  asOf: string | null;
}

/** A market's own page: its evidence, how its score came about, and the proof that it is in the archive. */
export function Market(props: MarketProps) {
  const plan = useStored((state) => state.plan);
  useTitle("Market");
  if (plan === "aegis") return <OpenMarket {...props} />;
  return (
    <Page question="Market">
      <Closed subject="A market’s page" />
    </Page>
  );
}

function OpenMarket({ id, asOf }: MarketProps) {
  const { api } = useSite();
  const loaded = useLoaded(
    async (signal) => {
      const snapshot = asOf ?? (await api.pin()).snapshotId;
      return { snapshot, market: await api.service.market(id, { signal, asOf: snapshot }) };
    },
    [id, asOf],
  );
  return (
    <Page question={loaded.value?.market.question ?? "Market"}>
      <AsOf asOf={asOf} go={(state) => go(marketAddress(id, state))} />
      <Loading of={loaded} words="Loading the market…">
        {({ market, snapshot }) => (
          <>
            <Details market={market} />
            <Proof market={market} snapshot={snapshot} asOf={asOf} />
          </>
        )}
      </Loading>
    </Page>
  );
}

function Page({ question, children }: { question: string; children: ComponentChildren }) {
  const archive = useStored((state) => state.last.archive);
  return (
    <article>
      <p class="path">
        <a href={archive}>All markets</a>
      </p>
      <h1 class="ask" dir="auto">
        {question}
      </h1>
      {children}
    </article>
  );
}

const Details = ({ market }: { market: HistoricalMarket }) => (
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
