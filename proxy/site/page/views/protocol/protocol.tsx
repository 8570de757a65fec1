import type { ComponentChildren } from "preact";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../../schemas/records.ts";
import { renderBadge } from "../../../../../snapshots/artefacts/badge.ts";
import { briAxis, briSpans, Columns, distribution } from "../../charts/columns.tsx";
import { Bar, Diverging } from "../../charts/picture.tsx";
import { KeyOffer } from "../../components/access.tsx";
import { AsOf } from "../../components/field.tsx";
import { frameFor } from "../../components/take-along.tsx";
import { Change, Copyable, Facts, Moment, Term, Tier, titleOf } from "../../components/text.tsx";
import { Failure, Loading, Section, View } from "../../components/view.tsx";
import { useLoaded, useSite, useStored } from "../../model/hooks.ts";
import { asOfOption, go, isKeyed } from "../../model/state.ts";
import { ago, grouped } from "../../model/words.ts";
import { facts, peerAddress } from "../compare.tsx";
import { DimensionTable, History, TierLog, WhyChanged } from "./changes.tsx";

interface ProtocolProps {
  slug: string;
  /** The snapshot to show, by its id or a time; the present one if null. */
  asOf: string | null;
}

/** One protocol: its record and its place among the others, and with a key its history and moves. */
export function Protocol({ slug, asOf }: ProtocolProps) {
  const { api } = useSite();
  const keyed = useStored(isKeyed);
  const last = useStored((state) => state.last.scores);
  const show = (state: string | null) => go(`#/protocols/${slug}${state === null ? "" : `?asOf=${state}`}`);
  const closed = api.live
    ? "an earlier state, which needs a key of the Developer or Aegis plan."
    : "an earlier state, which needs the service.";
  return (
    <View title={nameOf(slug)} path={<a href={last}>All scores</a>}>
      {keyed && <AsOf asOf={asOf} go={show} />}
      {asOf === null || keyed ? (
        <Record slug={slug} asOf={asOf} />
      ) : (
        <>
          <KeyOffer words={`This address asks for ${closed}`} />
          <p>
            <a href={`#/protocols/${slug}`}>Show the present state</a>
          </p>
        </>
      )}
    </View>
  );
}

function Record({ slug, asOf }: ProtocolProps) {
  const { api } = useSite();
  // Only the service has earlier states.
  const scores = asOf === null ? api.scores : api.service;
  const record = useLoaded((signal) => scores.score(slug, { signal, ...asOfOption(asOf) }), [slug, asOf]);
  return (
    <Loading of={record} words="Loading the score…">
      {(value) => <Parts record={value} asOf={asOf} />}
    </Loading>
  );
}

function Parts({ record, asOf }: { record: ProtocolScore; asOf: string | null }) {
  const { api } = useSite();
  const keyed = useStored(isKeyed);
  const { slug } = record;
  const scores = asOf === null ? api.scores : api.service;
  const list = useLoaded((signal) => scores.scores({ signal, ...asOfOption(asOf) }), [slug, asOf]);
  const moves = useLoaded(
    async (signal) =>
      keyed ? (await api.service.dimensions(slug, { signal, ...asOfOption(asOf) })).dimensions : undefined,
    [slug, asOf, keyed],
  );
  return (
    <>
      <Summary record={record}>
        <Loading of={list} words="Loading its place among all…">
          {({ scores: all }) => <Among record={record} scores={all} present={asOf === null} />}
        </Loading>
      </Summary>
      <Section id="dimensions" title="Twelve dimensions" aria-busy={moves.busy ? "true" : undefined}>
        <DimensionTable record={record} moves={moves.value} />
        {moves.value && <WhyChanged record={record} asOf={asOf} moves={moves.value} />}
        {moves.error !== undefined && <Failure error={moves.error} again={moves.again} />}
      </Section>
      {keyed ? (
        <History slug={slug} asOf={asOf} list={list} />
      ) : (
        api.live && (
          <Section id="history" title="Seven days">
            <KeyOffer
              words={
                "With a Developer or Aegis key: the curve of seven days, how each dimension moved in them, and its " +
                "place among all protocols; and the page as it was in earlier snapshots."
              }
            />
          </Section>
        )
      )}
      <About record={record} />
      <Section id="evidence" title="Evidence">
        <p class="quiet">Hash of the content behind this score</p>
        <code class="hash">{record.evidenceHash}</code>
      </Section>
      {/* It has what is published at present. */}
      {asOf === null && (api.published !== undefined || !api.files) && <TierLog slug={slug} />}
      {/* One of an earlier state would pass for the present one. */}
      {asOf === null && <Badge record={record} />}
    </>
  );
}

interface SummaryProps {
  record: ProtocolScore;
  /** The protocol's place among the others. */
  children: ComponentChildren;
}

function Summary({ record, children }: SummaryProps) {
  const { bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, metadata } = record;
  return (
    <div class={`summary tier-${forgeScaleNum}`}>
      <div>
        <p class="quiet">
          <bdi>{metadata.category}</bdi> · <bdi>{metadata.chain}</bdi> · <bdi>{metadata.tvl}</bdi> locked
        </p>
        <p class="bri">
          <b class="big">{bri}</b>
          <span class="of">
            <Term about="bri">BRI</Term> of 1,000
          </span>
        </p>
        <Bar value={bri} max={1000} />
        <div class="among">{children}</div>
      </div>
      <Facts
        rows={[
          [<Term about="tier">Tier</Term>, <Tier name={forgeScale} />],
          [
            <Term about="delta">Change</Term>,
            <span class="moved">
              {bri - delta} → {bri} <Diverging value={delta} most={Math.max(20, Math.abs(delta))} />
              <Change value={delta} />
            </span>,
          ],
          [<Term about="confidence">Confidence</Term>, `${confidence} of 100`],
          [
            "Updated",
            <span>
              <Moment iso={updatedAt} />, {ago(updatedAt, Date.now())}
            </span>,
          ],
        ]}
      />
    </div>
  );
}

interface AmongProps {
  record: ProtocolScore;
  /** Of all protocols. */
  scores: readonly ScoreListEntry[];
  /** Whether the present state is shown. */
  present: boolean;
}

function Among({ record: { slug, bri }, scores, present }: AmongProps) {
  const above = scores.filter((each) => each.bri > bri).length;
  const entry = scores.find((each) => each.slug === slug);
  const kind = scores.filter(({ category }) => category !== undefined && category === entry?.category);
  const aboveInKind = kind.filter((each) => each.bri > bri).length;
  return (
    <>
      <p>
        Place <b>{above + 1}</b> of {grouped(scores.length)}
        {kind.length > 1 && (
          <>
            , <b>{aboveInKind + 1}</b> of {grouped(kind.length)} in <bdi>{entry?.category}</bdi>
          </>
        )}
        {present && entry && (
          <>
            {" "}
            · <a href={peerAddress(entry, scores)}>Compare side by side</a>
          </>
        )}
      </p>
      <Columns
        columns={distribution({ scores })}
        label={`The BRI of all protocols. This one is number ${above + 1} of ${scores.length}.`}
        axis={briAxis}
        unit="BRI"
        hot={(column) => column === briSpans.findIndex(({ to }) => bri <= to)}
      />
    </>
  );
}

function About({ record }: { record: ProtocolScore }) {
  const rowsOf = (lines: typeof facts.about) =>
    lines.map((line) => [titleOf(line), line.cell(record)] as const);
  return (
    <div class="cards">
      <Section id="cascade" title="Cascade">
        <Facts rows={rowsOf(facts.cascade)} />
      </Section>
      <Section id="findings" title="Findings">
        <Facts rows={rowsOf(facts.findings)} />
      </Section>
      <Section id="about" title="About">
        <Facts rows={[["Name in addresses", <code>{record.slug}</code>], ...rowsOf(facts.about)]} />
      </Section>
    </div>
  );
}

/**
 * A badge for other pages: a picture and its source. Where badges are published, the source names the file, which is
 * renewed.
 */
function Badge({ record }: { record: ProtocolScore }) {
  const { published } = useSite().api;
  const { slug, bri, forgeScale } = record;
  const picture = renderBadge(record).text.trim();
  return (
    <Section id="badge" class="badge" title="Badge">
      <p>
        <img
          src={`data:image/svg+xml,${encodeURIComponent(picture)}`}
          alt={`${slug}: BRI ${bri}, ${forgeScale}`}
          height={20}
        />
      </p>
      {published === undefined && (
        <p class="quiet">A picture of this score: it does not change when the score does.</p>
      )}
      <Copyable
        name="Source of the badge"
        text={published === undefined ? picture : embedded(published, slug)}
      />
      {published !== undefined && (
        <>
          <p>The score and its dimensions, as a frame:</p>
          <Copyable
            name="Source of the frame"
            text={frameFor(`${published}embed/${slug}/index.html`, `Risk score of ${nameOf(slug)}`)}
          />
        </>
      )}
    </Section>
  );
}

/** HTML that shows the published badge of a protocol. It stays right when the score changes. */
const embedded = (published: string, slug: string) =>
  `<a href="${published}protocols/${slug}/index.html">` +
  `<img src="${published}badges/${slug}.svg" alt="Risk score of ${slug}" height="20"></a>`;
