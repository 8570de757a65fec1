import type { ScoreHistory, ScoreList } from "../../../../../schemas/envelopes.ts";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { Curve } from "../../charts/curve.tsx";
import { Failure, Loading } from "../../components/failure.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { Change, Moment, PlainTable, Tier } from "../../components/text.tsx";
import { Section } from "../../components/view.tsx";
import { type Loaded, useLoaded, useSite } from "../../model/hooks.ts";
import { asOfOption } from "../../model/state.ts";
import { counted, minutes, signed } from "../../model/words.ts";

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
          {({ points }) =>
            list.value &&
            points.length > 0 && <Runs slug={slug} asOf={asOf} points={points} scores={list.value.scores} />
          }
        </Loading>
      )}
    </Section>
  );
}

interface RunsProps {
  slug: string;
  asOf: string | null;
  points: ScoreHistory["points"];
  scores: readonly ScoreListEntry[];
}

function Runs({ slug, asOf, points, scores }: RunsProps) {
  const [first, before, last] = [points[0], points.at(-2), points.at(-1)];
  if (!first || !last) return null;
  const name = `BRI over ${counted(points.length, "run")}, from ${first.bri} to ${last.bri}`;
  return (
    <>
      <p class="quiet">
        {before
          ? `${counted(points.length, "scoring run")}; BRI went from ${first.bri} to ${last.bri} ` +
            `(${signed(last.bri - first.bri)}). ${lastRun(before, last)}`
          : "One scoring run."}
      </p>
      <Curve points={points} scores={scores} name={name} />
      <details>
        <summary>Show as a table</summary>
        <PlainTable
          label="History as a table"
          caption={<caption class="unseen">Score history, oldest first</caption>}
          titles={["Time", "BRI", "Tier", "Confidence", "Change"]}
          numbers={["BRI", "Confidence", "Change"]}
          rows={points.map(({ updatedAt, bri, forgeScale, confidence, delta }) => [
            <Moment iso={updatedAt} />,
            bri,
            <Tier name={forgeScale} />,
            confidence,
            <Change value={delta} />,
          ])}
        />
      </details>
      <TakeAlong
        name={`${slug}-history`}
        title={`BRI of ${nameOf(slug)} over seven days`}
        n={counted(points.length, "run")}
        picture={() => <Curve points={points} scores={scores} name={name} />}
        asked={() => [{ path: `scores/${slug}/history`, filters: new URLSearchParams(asOfOption(asOf)) }]}
      />
    </>
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
