import { type ComponentChildren, Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { meanings } from "../../../../schemas/meanings.ts";
import type { HistoricalMarket, MarketDimension } from "../../../../schemas/records.ts";
import { type MarketProof, verifyProof } from "../../client/client.ts";
import { Bar } from "../charts/picture.tsx";
import { Closed } from "../components/access.tsx";
import { AsOf } from "../components/field.tsx";
import { Copyable, DimensionLink, Facts, Moment, OutsideLink, Term, Tier } from "../components/text.tsx";
import { Failure, Loading, Section, View } from "../components/view.tsx";
import { marketAddress } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { go } from "../model/state.ts";
import { counted, grouped, numberOf, spoken, stepOf } from "../model/words.ts";

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

const Summary = ({ market }: { market: HistoricalMarket }) => (
  <div class={`summary tier-${numberOf(market.tier)}`}>
    <div>
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
        {Object.entries({ raised: raises, lowered: lowers }).map(
          ([how, why]) =>
            why.length > 0 && (
              <Fragment key={how}>
                {` · ${how} by `}
                <Anything value={why} />
              </Fragment>
            ),
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

interface ProofProps {
  market: HistoricalMarket;
  /** The id or time of the snapshot that the market was read from. */
  snapshot: string;
  /** The one in the address. */
  asOf: string | null;
}

/** Verifies in this browser that a market is in the archive, when the reader wants that. */
function Proof({ market, snapshot, asOf }: ProofProps) {
  const { api } = useSite();
  const { id } = market;
  const key = useRef<HTMLInputElement>(null);
  const ending = useRef(new AbortController());
  const [verdict, setVerdict] = useState<ComponentChildren>();
  const [busy, setBusy] = useState(false);
  useEffect(() => () => ending.current.abort(), []);
  const verify = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const { signal } = ending.current;
    try {
      const publisher = key.current?.value.trim() ?? "";
      const proof = await api.service.proof(id, { signal, asOf: snapshot });
      const proven = await verifyProof(proof, { id, asOf: snapshot, ...(publisher && { key: publisher }) });
      if (JSON.stringify(proven) !== JSON.stringify(market))
        throw new Error("The archive has changed since this page was loaded. Reload it.");
      setVerdict(<Chain proven={proof} publisher={publisher} />);
    } catch (error) {
      if (signal.aborted) return;
      const insecure = new Error("Browsers verify on secure origins only: use https.");
      setVerdict(<Failure error={crypto.subtle ? error : insecure} />);
    }
    setBusy(false);
  };
  const path = `${api.base}/markets/${id}/proof${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;
  return (
    <Section id="proof" title="Proof">
      <p class="quiet">
        The page asks for the proof, which takes a request, and hashes its way from this market’s text to the
        id of the snapshot. With the publisher’s public key it also checks who signed that.
      </p>
      <form class="measure" onSubmit={verify} noValidate>
        <label for="publisher">Publisher’s key, if you have it</label>
        <div class="joined">
          <input
            ref={key}
            id="publisher"
            type="text"
            autocomplete="off"
            spellcheck={false}
            placeholder="NAME+ID+BASE64"
          />
          <button type="submit" disabled={busy}>
            Verify in this browser
          </button>
        </div>
      </form>
      <div role="status">{verdict}</div>
      <Copyable name="Request of the proof" text={`curl -sS -H "x-api-key: $KEY" "${path}"`} />
    </Section>
  );
}

/** What was proven, link by link. `publisher` is the key that was entered, if any. */
function Chain({ proven, publisher }: { proven: MarketProof; publisher: string }) {
  const { market, proof, snapshotId, commit, checkpoint } = proven;
  const { page, segment, archive } = proof;
  const signature = publisher
    ? `which the publisher signed as commit ${grouped(commit)}.`
    : `which is commit ${grouped(commit)}. ` +
      (checkpoint === null ? "Nobody signed it." : "It is signed; enter the publisher’s key to check that.");
  return (
    <>
      <p class="proven">
        <strong>✓ Verified.</strong> What you see is what the snapshot holds.
      </p>
      <ol class="chain">
        <li>This market’s text, {counted(new TextEncoder().encode(market).length, "byte")}</li>
        <li>
          is number {grouped(page.index + 1)} of {grouped(page.size)} in its page,
        </li>
        <li>
          which is number {grouped(segment.index + 1)} of {grouped(segment.size)} in its segment,
        </li>
        <li>
          which is number {grouped(archive.index + 1)} of {grouped(archive.size)} in the archive of{" "}
          {counted(archive.markets, "market")},
        </li>
        <li>
          which is part of snapshot <code>{snapshotId}</code>,
        </li>
        <li>{signature}</li>
      </ol>
    </>
  );
}
