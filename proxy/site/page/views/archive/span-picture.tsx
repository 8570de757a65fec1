import type { MonthFacet, ScoreFacet } from "../../../../../schemas/envelopes.ts";
import type { Brushing } from "../../charts/brush.ts";
import { Columns } from "../../charts/columns.tsx";
import { dimensions, ownOf } from "../../model/filters.ts";
import { counted, grouped, spoken, stepOf } from "../../model/words.ts";

/** The values that a column of a histogram stands for. */
export interface Span {
  name: string;
  /** The range includes both ends. */
  from: string;
  to: string;
  count: number;
}

export const isMonths = (facet: string) => facet === "month";

export function spansOf(counts: unknown): Span[] {
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

export const totalOf = (spans: readonly Span[]) => spans.reduce((sum, { count }) => sum + count, 0);

export const highestOf = (spans: readonly Span[]): Span | undefined =>
  spans.toSorted((a, b) => b.count - a.count)[0];

/** The values within the range of a facet in a query; all values where there is no range. */
export function withinOf(facet: string, query: URLSearchParams) {
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
export function SpanPicture({ facet, spans, query, log, brushing }: SpanPictureProps) {
  const months = isMonths(facet);
  const isRisk = dimensions.includes(facet);
  const within = withinOf(facet, query);
  const peak = highestOf(spans);
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
          class: months ? "column" : `column ${isRisk ? "risk " : ""}tier-${stepOf(index / spans.length)}`,
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
