import { useState } from "preact/hooks";
import type { ScoreDimensions, ScoreHistory, ScoreList } from "../../../../../schemas/envelopes.ts";
import { meanings } from "../../../../../schemas/meanings.ts";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ProtocolScore } from "../../../../../schemas/records.ts";
import { Curve } from "../../charts/curve.tsx";
import { Bar, Diverging, Scored } from "../../charts/picture.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import {
  Change,
  DimensionLink,
  Moment,
  PlainButton,
  PlainTable,
  Scrolls,
  Tier,
} from "../../components/text.tsx";
import { Failure, Loading, Section } from "../../components/view.tsx";
import type { Api } from "../../model/api.ts";
import { type Loaded, useLoaded, useSite } from "../../model/hooks.ts";
import { asOfOption } from "../../model/state.ts";
import { counted, minutes, signed } from "../../model/words.ts";
import { moversOf } from "../scores/scores.tsx";

interface DimensionTableProps {
  record: ProtocolScore;
  /** The change of each score in seven days, where that is known. */
  moves: ScoreDimensions["dimensions"] | undefined;
}

export function DimensionTable({ record, moves = [] }: DimensionTableProps) {
  const most = Math.max(5, ...moves.map(({ change7d }) => Math.abs(change7d)));
  const ofMoves = [
    { title: "7 days", about: "change7d", number: true },
    { title: "Percentile", about: "percentile", number: true },
  ] as const;
  return (
    <PlainTable
      class="dimensions"
      caption={<caption class="quiet">{meanings.protocolDimension.meaning}</caption>}
      columns={[
        { title: "Dimension" },
        { title: "Score", about: "protocolDimension", number: true },
        ...(moves.length > 0 ? ofMoves : []),
      ]}
      rows={Object.entries(record.dimensions).map(([key, score]) => [
        <DimensionLink name={key} />,
        <Scored value={score} />,
        ...moves
          .filter((move) => move.key === key)
          .flatMap(({ change7d, percentile }) => [
            <span class="moved">
              <Diverging value={change7d} most={most} />
              <Change value={change7d} />
            </span>,
            <span class="score">
              <Bar value={0} max={100} mark={percentile} />
              <b>{percentile}</b>
            </span>,
          ]),
      ])}
    />
  );
}

/** How many runs back the moves are shown. */
const runs = 3;

interface WhyProps {
  record: ProtocolScore;
  /** The snapshot to show, by its id or a time; the present one if null. */
  asOf: string | null;
}

/** The dimensions that moved, the largest move first: in seven days, and on demand from run to run. */
export function WhyChanged({ record, asOf, moves }: WhyProps & { moves: ScoreDimensions["dimensions"] }) {
  const [open, setOpen] = useState(false);
  const days = moves.map(({ key, score, change7d }) => ({ key, before: score - change7d, after: score }));
  return (
    <Section id="why" class="why" title="Why it changed">
      <h3>In seven days</h3>
      <Moves dimensions={days} />
      {open ? (
        <Steps record={record} asOf={asOf} />
      ) : (
        <PlainButton onClick={() => setOpen(true)}>
          Show the last runs one by one (at most {2 * runs + 1} requests)
        </PlainButton>
      )}
    </Section>
  );
}

function Steps({ record, asOf }: WhyProps) {
  const { api } = useSite();
  const steps = useLoaded((signal) => stepsBefore(api, record, asOf, signal), [record, asOf]);
  return (
    <Loading of={steps} words="Asking for the runs before…">
      {(runs) =>
        runs.length === 0 ? (
          <p>No earlier run is in a snapshot that your key can read.</p>
        ) : (
          runs.map(({ before, later }) => (
            <div key={later.updatedAt}>
              <h3>
                From {minutes(before.updatedAt)} to {minutes(later.updatedAt)}: BRI {before.bri} → {later.bri}
              </h3>
              <Moves
                dimensions={Object.entries(later.dimensions).map(([key, after]) => ({
                  key,
                  before: before.dimensions[key as keyof typeof before.dimensions],
                  after,
                }))}
              />
            </div>
          ))
        )
      }
    </Loading>
  );
}

function Moves({ dimensions }: { dimensions: readonly { key: string; before: number; after: number }[] }) {
  const moved = moversOf(dimensions.map((each) => ({ ...each, delta: each.after - each.before })));
  if (moved.length === 0) return <p>No dimension moved.</p>;
  return (
    <ol class="moves">
      {moved.map(({ key, before, after, delta }) => (
        <li key={key}>
          <DimensionLink name={key} /> {before} → {after} <Change value={delta} />
        </li>
      ))}
    </ol>
  );
}

/**
 * The last runs, newest first, each with the one before, as far as states can be read: a state that was published
 * before a run took place holds the run before. Where all states were published later, as when runs are published one
 * after another, the newest and the oldest of them are read.
 */
async function stepsBefore(api: Api, record: ProtocolScore, asOf: string | null, signal: AbortSignal) {
  const snapshots = await api.snapshots(signal);
  const currentId = asOf ?? snapshots[0]?.snapshotId;
  // Newest first; only those that may hold an earlier run.
  let states = snapshots.slice(1 + snapshots.findIndex(({ snapshotId }) => snapshotId === currentId));
  const steps: { before: ProtocolScore; later: ProtocolScore }[] = [];
  let later = record;
  const step = async () => {
    const state = states.find(({ publishedAt }) => publishedAt < later.updatedAt);
    for (const each of state ? [state] : new Set([states[0], states.at(-1)])) {
      if (!each) continue;
      const before = await api.service.score(later.slug, { signal, asOf: each.snapshotId });
      if (before.updatedAt >= later.updatedAt) continue;
      steps.push({ before, later });
      states = states.slice(1 + states.indexOf(each));
      later = before;
      return;
    }
    // Nor is there one further back.
    states = [];
  };
  for (let run = 0; run < runs; run += 1) await step();
  return steps;
}

interface HistoryProps {
  slug: string;
  asOf: string | null;
  list: Loaded<ScoreList>;
}

export function History({ slug, asOf, list }: HistoryProps) {
  const { api } = useSite();
  const history = useLoaded(
    (signal) => api.service.history(slug, { signal, ...asOfOption(asOf) }),
    [slug, asOf],
  );
  return (
    <Section id="history" title="Seven days">
      {list.error !== undefined ? (
        <Failure error={list.error} again={list.again} />
      ) : (
        <Loading of={history} words="Loading the history…">
          {({ points }) => {
            const [first, before, last] = [points[0], points.at(-2), points.at(-1)];
            const scores = list.value?.scores;
            if (!scores || !first || !last) return null;
            const runs = counted(points.length, "run");
            const curve = (
              <Curve
                points={points}
                scores={scores}
                name={`BRI over ${runs}, from ${first.bri} to ${last.bri}`}
              />
            );
            return (
              <>
                <p class="quiet">
                  {before
                    ? `${counted(points.length, "scoring run")}; BRI went from ${first.bri} to ${last.bri} ` +
                      `(${signed(last.bri - first.bri)}). ${lastRun(before, last)}`
                    : "One scoring run."}
                </p>
                {curve}
                <details>
                  <summary>Show as a table</summary>
                  <Scrolls label="History as a table">
                    <PlainTable
                      caption={<caption class="unseen">Score history, oldest first</caption>}
                      columns={[
                        { title: "Time" },
                        { title: "BRI", number: true },
                        { title: "Tier" },
                        { title: "Confidence", number: true },
                        { title: "Change", number: true },
                      ]}
                      rows={points.map(({ updatedAt, bri, forgeScale, confidence, delta }) => [
                        <Moment iso={updatedAt} />,
                        bri,
                        <Tier name={forgeScale} />,
                        confidence,
                        <Change value={delta} />,
                      ])}
                    />
                  </Scrolls>
                </details>
                <TakeAlong
                  name={`${slug}-history`}
                  title={`BRI of ${nameOf(slug)} over seven days`}
                  n={runs}
                  picture={() => curve}
                  requests={() => [
                    { path: `scores/${slug}/history`, filters: new URLSearchParams(asOfOption(asOf)) },
                  ]}
                />
              </>
            );
          }}
        </Loading>
      )}
    </Section>
  );
}

type Point = ScoreHistory["points"][number];

/** The changes of the last run besides the BRI. */
function lastRun(before: Point, last: Point): string {
  const tier =
    before.forgeScale === last.forgeScale
      ? `The last run left it in ${last.forgeScale}.`
      : `The last run moved it from ${before.forgeScale} to ${last.forgeScale}.`;
  const confidence = last.confidence - before.confidence;
  return `${tier} Its confidence ${confidence ? `moved by ${signed(confidence)}` : "stayed"}.`;
}

/** The changes of a protocol's tier, newest first, where they are published. */
export function TierLog({ slug }: { slug: string }) {
  const { api } = useSite();
  const tiers = useLoaded((signal) => api.scores.tiers({ signal }), []);
  return (
    <Section id="tiers" title="Changes of tier">
      <Loading of={tiers} words="Loading the changes…">
        {({ since, changes }) => {
          const own = changes.filter((each) => each.slug === slug);
          return (
            <>
              <p class="quiet">
                {own.length > 0 ? "" : "None. "}
                The log has the changes of at most 30 days, the newest 500 of all protocols; it began{" "}
                {minutes(since)}.
              </p>
              <ol class="moves">
                {own.map(({ from, to, bri, at }) => (
                  <li key={at}>
                    <Moment iso={at} />: <Tier name={from} /> → <Tier name={to} />, BRI {bri}
                  </li>
                ))}
              </ol>
            </>
          );
        }}
      </Loading>
    </Section>
  );
}
