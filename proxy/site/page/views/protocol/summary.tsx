import type { ComponentChildren } from "preact";
import type { ProtocolScore, ScoreListEntry } from "../../../../../schemas/records.ts";
import { Bar, Diverging } from "../../charts/bar.tsx";
import { Columns } from "../../charts/columns.tsx";
import { briAxis, columnOf, distribution } from "../../charts/distribution.ts";
import { Term } from "../../components/meaning.tsx";
import { Change, Facts, Moment, Tier } from "../../components/text.tsx";
import { peerAddress } from "../../model/statistics.ts";
import { ago, grouped } from "../../model/words.ts";

interface SummaryProps {
  record: ProtocolScore;
  /** The protocol's place among the others. */
  children: ComponentChildren;
}

export function Summary({ record, children }: SummaryProps) {
  const { bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, metadata } = record;
  return (
    <div class={`summary tier-${forgeScaleNum}`}>
      <div class="headline">
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
          [<Term about="tier">Tier</Term>, <Tier name={forgeScale} number={forgeScaleNum} />],
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

export function Among({ record: { slug, bri }, scores, present }: AmongProps) {
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
        columns={distribution(scores, () => false)}
        label={`The BRI of all protocols. This one is number ${above + 1} of ${scores.length}.`}
        axis={briAxis}
        unit="BRI"
        hot={(column) => column === columnOf(bri)}
      />
    </>
  );
}
