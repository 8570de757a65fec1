import { useRef, useState } from "preact/hooks";
import type { MonthFacet, ScoreFacet } from "../../../../../schemas/envelopes.ts";
import { type Brushing, Columns, type Run } from "../../charts/columns.tsx";
import { Field, Refusal, refused } from "../../components/field.tsx";
import type { Taken } from "../../components/take-along.tsx";
import { PlainButton } from "../../components/text.tsx";
import { Sketch } from "../../components/view.tsx";
import { archiveAddress, changed, dimensions, facetRequest, labelOf, ownOf } from "../../model/filters.ts";
import { compact, counted, grouped, spoken, stepOf } from "../../model/words.ts";
import { errorOf, type FacetProps, type Problem } from "./answers.ts";
import { FacetTitle } from "./choice-list.tsx";

/** By how much the highest month must exceed a typical one for a logarithmic scale to be offered. */
const flattening = 5;

function isFlattened(spans: readonly Span[]) {
  const [most = 0, ...others] = spans.map(({ count }) => count).toSorted((a, b) => b - a);
  const some = others.filter((count) => count > 0);
  return most >= flattening * (some[Math.floor(some.length / 2)] ?? Infinity);
}

interface HistogramProps extends FacetProps {
  problem: Problem;
  /** Called while the brush moves, with the query that it would lead to. */
  preview: (query: URLSearchParams, facet: string) => void;
}

/** A histogram with a brush, and the same range as two fields below it. */
export function Histogram({ facet, query, answer, isBusy, problem, go, preview }: HistogramProps) {
  const [low = "", high = ""] = ownOf(facet);
  const months = isMonths(facet);
  const [run, brush] = useState<Run>();
  const [wantsLog, setLog] = useState(false);
  // A drag goes on with the columns that it began with.
  const drawn = useRef(answer);
  if (!run) drawn.current = answer;
  const spans = drawn.current && spansOf(drawn.current.counts);
  const endsOf = ([first, last]: Run) => [spans?.[first]?.from ?? "", spans?.[last]?.to ?? ""] as const;
  const brushing = {
    moved: (next: Run) => {
      brush(next);
      const [min, max] = endsOf(next);
      preview(changed(query, { [low]: min, [high]: max }), facet);
    },
    ended: (last?: Run) => {
      brush(undefined);
      if (!last) return preview(query, facet);
      const [min, max] = endsOf(last);
      const isAgain = query.get(low) === min && query.get(high) === max;
      go(changed(query, { [low]: isAgain ? null : min, [high]: isAgain ? null : max }));
    },
  };
  /** The field for an end of the range. It has a placeholder where nothing is chosen. */
  const field = (name: string, placeholder: string) => (
    <Field
      id={name}
      {...{ query, placeholder }}
      text={query.get(name) ?? ""}
      enter={(text) => go(changed(query, { [name]: text }))}
      inputMode={months ? undefined : "numeric"}
      aria-label={labelOf(name)}
      {...refused(name, errorOf(name, problem))}
    />
  );
  const kind = months ? " months" : "";
  return (
    <section class={`facet${kind}${answer?.isRecomputed ? " recomputed" : ""}`} data-facet={facet}>
      <div class="facet-head">
        <FacetTitle facet={facet} />
        {months && spans && (wantsLog || isFlattened(spans)) && (
          <PlainButton class="plain scale" aria-pressed={wantsLog} onClick={() => setLog(!wantsLog)}>
            Log scale
          </PlainButton>
        )}
        <span class="quiet">
          {spans && run ? (
            <span class="tally">
              {endsOf(run).join(" to ")}: {compact(totalOf(spans.slice(run[0], run[1] + 1)))}
            </span>
          ) : (
            spans &&
            withinOf(facet, query) && (
              <a
                href={archiveAddress(changed(query, { [low]: null, [high]: null }))}
                data-key={`${facet} any`}
              >
                Any<span class="unseen"> {months ? "month" : spoken(facet)}</span>
              </a>
            )
          )}
        </span>
      </div>
      <div class="plot">
        {spans ? <SpanPicture {...{ facet, spans, query, log: wantsLog, brushing }} /> : isBusy && <Sketch />}
      </div>
      <div class="range">
        {field(low, spans?.[0]?.from ?? "from")}
        <span aria-hidden="true">–</span>
        {field(high, spans?.at(-1)?.to ?? "to")}
      </div>
      {[low, high].map((name) => (
        <Refusal key={name} of={name} error={errorOf(name, problem)} />
      ))}
    </section>
  );
}

/** A histogram that can be saved and cited, under filters that leave its own range alone. */
export function chartOf(facet: string, counts: unknown, filters: URLSearchParams) {
  const spans = spansOf(counts);
  return {
    name: `markets-by-${facet}`,
    title: `Resolved markets by ${spoken(facet).toLowerCase()}`,
    filters,
    n: counted(totalOf(spans), "market"),
    picture: () => <SpanPicture {...{ facet, spans, query: filters, log: false }} />,
    requests: () => [facetRequest(facet, filters)],
  } satisfies Taken;
}

type Span = ReturnType<typeof spansOf>[number];

const isMonths = (facet: string) => facet === "month";

/** The values that each column of a histogram stands for: `from` and `to` are among them. */
function spansOf(counts: unknown) {
  const { buckets } = counts as ScoreFacet | MonthFacet;
  return buckets.map((bucket) =>
    "value" in bucket
      ? { ...bucket, name: bucket.value, from: `${bucket.value}-01`, to: lastDayOf(bucket.value) }
      : { ...bucket, name: `${bucket.from} to ${bucket.to}`, from: `${bucket.from}`, to: `${bucket.to}` },
  );
}

/** @param month such as `2026-02` */
function lastDayOf(month: string) {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return `${month}-${new Date(Date.UTC(year, number, 0)).getUTCDate()}`;
}

const totalOf = (spans: readonly Span[]) => spans.reduce((sum, { count }) => sum + count, 0);

/** The values within the range of a facet in a query; all values where there is no range. */
function withinOf(facet: string, query: URLSearchParams) {
  const [low = "", high = ""] = ownOf(facet);
  const [first, last] = [query.get(low), query.get(high)];
  if (first === null && last === null) return undefined;
  return ({ from, to }: Span) =>
    isMonths(facet)
      ? (first ?? "") <= `${to}T24` && (last ?? "9999") >= from
      : Number(first ?? 0) <= Number(to) && Number(last ?? 1000) >= Number(from);
}

/** Values for the axis: first and last, and a few between them at their places. */
function axisOf(facet: string, spans: readonly Span[]) {
  const [first, last] = [spans[0], spans.at(-1)];
  if (!first || !last) return [];
  const end = { at: spans.length, text: isMonths(facet) ? last.name : grouped(Number(last.to)) };
  if (spans.length === 1 && isMonths(facet)) return [{ at: 0.5, text: last.name }];
  const step = isMonths(facet) || spans.length <= 10 ? spans.length / 2 : 4;
  const values = [];
  for (let at = 0; at <= spans.length - step && (at === 0 || spans.length > 2); at += Math.ceil(step)) {
    const { name, from } = spans[at] ?? first;
    values.push({ at, text: isMonths(facet) ? name : grouped(Number(from)) });
  }
  return [...values, end];
}

interface SpanPictureProps {
  facet: string;
  spans: readonly Span[];
  query: URLSearchParams;
  log: boolean;
  brushing?: Brushing;
}

/** Markets by a score or by month. Columns of a score have the colours of its scale, those of a signal its own. */
function SpanPicture({ facet, spans, query, log, brushing }: SpanPictureProps) {
  const months = isMonths(facet);
  const isRisk = dimensions.includes(facet);
  const within = withinOf(facet, query);
  const [peak] = spans.toSorted((a, b) => b.count - a.count);
  const hot = (index: number) => {
    const span = spans[index];
    return span !== undefined && (within?.(span) ?? true);
  };
  return (
    <Columns
      columns={spans.map(({ count, name }, index) => [
        {
          value: count,
          title: `${name}: ${counted(count, "market")}`,
          class: months ? "" : `${isRisk ? "risk " : ""}tier-${stepOf(index / spans.length)}`,
        },
      ])}
      label={
        `${months ? "Markets per month" : spoken(facet)}: ${counted(totalOf(spans), "market")}` +
        (peak?.count ? `, most ${months ? "in" : "at"} ${peak.name}` : "") +
        (log ? ". The scale is logarithmic." : "")
      }
      axis={axisOf(facet, spans)}
      unit={months ? "month" : isRisk ? "riskier →" : "safer →"}
      height={months ? 132 : 104}
      hot={hot}
      log={log}
      {...(brushing && { brushing })}
    />
  );
}
