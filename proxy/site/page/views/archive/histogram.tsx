import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Run } from "../../charts/brush.ts";
import { Failure, Sketch } from "../../components/failure.tsx";
import { archiveAddress, changed, labelOf, ownOf } from "../../model/filters.ts";
import { compact, spoken } from "../../model/words.ts";
import type { FacetAnswer } from "./answers.ts";
import { FacetTitle } from "./choice-list.tsx";
import type { Problem } from "./search.tsx";
import { isMonths, type Span, SpanPicture, spansOf, totalOf, withinOf } from "./span-picture.tsx";

/** By how much the highest month must exceed a typical one for a logarithmic scale to be offered. */
const flattening = 5;

function isFlattened(spans: readonly Span[]) {
  const [most = 0, ...others] = spans.map(({ count }) => count).toSorted((a, b) => b - a);
  const some = others.filter((count) => count > 0);
  return most >= flattening * (some[Math.floor(some.length / 2)] ?? Infinity);
}

interface HistogramProps {
  facet: string;
  query: URLSearchParams;
  answer: FacetAnswer | undefined;
  isBusy: boolean;
  problem: Problem;
  go: (query: URLSearchParams) => void;
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
  const kind = months ? " months" : "";
  return (
    <section class={`facet${kind}${answer?.isRecomputed ? " recomputed" : ""}`} data-facet={facet}>
      <div class="facet-head">
        <FacetTitle facet={facet} />
        {months && spans && (wantsLog || isFlattened(spans)) && (
          <button
            type="button"
            class="plain scale"
            aria-pressed={wantsLog ? "true" : "false"}
            onClick={() => setLog(!wantsLog)}
          >
            Log scale
          </button>
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
        <RangeEnd name={low} end={spans?.[0]?.from ?? "from"} {...{ query, problem, go, months }} />
        <span aria-hidden="true">–</span>
        <RangeEnd name={high} end={spans?.at(-1)?.to ?? "to"} {...{ query, problem, go, months }} />
      </div>
      {[low, high].map((name) => (
        <div key={name} id={`problem-${name}`}>
          {problem?.parameter === name && <Failure error={problem.error} />}
        </div>
      ))}
    </section>
  );
}

interface RangeEndProps {
  name: string;
  /** The placeholder where nothing is chosen. */
  end: string;
  query: URLSearchParams;
  problem: Problem;
  months: boolean;
  go: (query: URLSearchParams) => void;
}

function RangeEnd({ name, end, query, problem, months, go }: RangeEndProps) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (field.current) field.current.value = query.get(name) ?? "";
  }, [query]);
  return (
    <input
      ref={field}
      id={name}
      type="text"
      inputMode={months ? undefined : "numeric"}
      autocomplete="off"
      spellcheck={false}
      placeholder={end}
      aria-label={labelOf(name)}
      aria-describedby={`problem-${name}`}
      aria-invalid={problem?.parameter === name ? "true" : undefined}
      onChange={({ currentTarget }) => go(changed(query, { [name]: currentTarget.value.trim() }))}
    />
  );
}
