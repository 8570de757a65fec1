import { type ComponentChildren, Fragment } from "preact";
import { meanings } from "../../../../../schemas/meanings.ts";
import type { HistoricalMarket, MarketDimension } from "../../../../../schemas/records.ts";
import { Bar } from "../../charts/bar.tsx";
import { AsOf } from "../../components/as-of.tsx";
import { Closed } from "../../components/closed.tsx";
import { Loading } from "../../components/failure.tsx";
import { DimensionLink, Term } from "../../components/meaning.tsx";
import { Facts, Moment, OutsideLink, Tier } from "../../components/text.tsx";
import { View } from "../../components/view.tsx";
import { marketAddress } from "../../model/filters.ts";
import { useLoaded, useSite, useStored } from "../../model/hooks.ts";
import { go } from "../../model/state.ts";
import { counted, grouped, numberOf, spoken, stepOf } from "../../model/words.ts";
import { Proof } from "./proof.tsx";

interface MarketProps {
  id: string;
  /** The snapshot's id or a time, where an earlier state is shown. */
  asOf: string | null;
}

/** A market's own page: its evidence, how its score came about, and the proof that it is in the archive. */
export function Market(props: MarketProps) {
  const plan = useStored((state) => state.plan);
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
    <View title="Market" heading={question} path={<a href={archive}>All markets</a>}>
      {children}
    </View>
  );
}

const Details = ({ market }: { market: HistoricalMarket }) => (
  <>
    <Summary market={market} />
    <h2>Six risk signals</h2>
    <p class="quiet">{meanings.marketDimension.meaning}</p>
    <ul class="bare signals">
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
        ["Name in addresses", market.slug],
        ["Identifier", <code>{market.id}</code>],
      ]}
    />
  </>
);

const Summary = ({ market }: { market: HistoricalMarket }) => (
  <div class={`summary tier-${numberOf(market.tier)}`}>
    <div class="headline">
      <p class="bri">
        <b class="big">{market.composite}</b>
        <span class="of">
          <Term about="composite">Composite</Term> of 300 to 1,000
        </span>
      </p>
      <Bar value={market.composite - 300} max={700} />
      <p class="row quiet tags">
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

/** How many pieces of evidence are shown at once; a market may have hundreds. */
const few = 5;

function Signal({ dimension }: { dimension: MarketDimension }) {
  const { key, name, score, weight, description, evidence, references } = dimension;
  const { baseline, raises, lowers } = dimension.computation;
  return (
    <li>
      <h3 dir="auto">
        <DimensionLink name={key}>{name}</DimensionLink>
      </h3>
      <p class={`score tier-${stepOf(score / 100)}`}>
        <Bar value={score} max={100} />
        <span>
          <Term about="marketDimension">Risk</Term> <b>{score}</b>
        </span>
        <span class="quiet">
          <Term about="weight">Weight</Term> {weight}
        </span>
      </p>
      <p dir="auto">{description}</p>
      {evidence.length > 0 && (
        <>
          <h4 class="quiet">{counted(evidence.length, "piece", "pieces")} of evidence</h4>
          <EvidenceList pieces={evidence.slice(0, few)} />
          {evidence.length > few && (
            <details>
              <summary>{grouped(evidence.length - few)} more</summary>
              <EvidenceList pieces={evidence.slice(few)} />
            </details>
          )}
        </>
      )}
      {references.length > 0 && (
        <>
          <h4 class="quiet">References</h4>
          <ul>
            {references.map((reference, index) => (
              <li key={index}>
                <Anything value={reference} />
              </li>
            ))}
          </ul>
        </>
      )}
      <h4 class="quiet">
        <Term about="computation">Computation</Term>
      </h4>
      <p class="quiet">
        Baseline {baseline}
        {raises.length > 0 && (
          <>
            {" "}
            · raised by <Anything value={raises} />
          </>
        )}
        {lowers.length > 0 && (
          <>
            {" "}
            · lowered by <Anything value={lowers} />
          </>
        )}
      </p>
    </li>
  );
}

/** The texts were written by others: `bdi` keeps their direction from spreading to the words around them. */
const EvidenceList = ({ pieces }: { pieces: MarketDimension["evidence"] }) => (
  <ul>
    {pieces.map(({ type, label, pattern, reference }, index) => (
      <li key={index}>
        <bdi>{label}</bdi>
        <span class="quiet">
          {" "}
          · <bdi>{spoken(type)}</bdi> · <bdi>{spoken(pattern)}</bdi> ·{" "}
        </span>
        <OutsideLink address={reference.url}>{reference.label}</OutsideLink>
        <span class="quiet">
          {" "}
          (<bdi>{reference.kind}</bdi>)
        </span>
      </li>
    ))}
  </ul>
);

/** Any JSON value as text, with web addresses as links. */
function Anything({ value }: { value: unknown }) {
  if (typeof value === "string") {
    if (/^https?:\/\//i.test(value)) return <OutsideLink address={value} />;
    return <bdi>{/^[a-z\d_]+$/.test(value) ? spoken(value) : value}</bdi>;
  }
  if (typeof value !== "object" || value === null) return <>{`${value}`}</>;
  const isList = Array.isArray(value);
  return (
    <>
      {Object.entries(value).map(([name, member], index) => (
        <Fragment key={name}>
          {index > 0 && (isList ? "; " : ", ")}
          {!isList && (
            <>
              <bdi>{spoken(name)}</bdi>:{" "}
            </>
          )}
          <Anything value={member} />
        </Fragment>
      ))}
    </>
  );
}
