import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Closed } from "../../components/access.tsx";
import { AsOf, Field, Refusal, refused } from "../../components/field.tsx";
import { TakeAnyAlong, type Taken } from "../../components/take-along.tsx";
import { FilterWords, PlainButton, SkipTo } from "../../components/text.tsx";
import { Failure, Sketch, View } from "../../components/view.tsx";
import {
  archiveAddress,
  changed,
  filtersOf,
  labelOf,
  labels,
  othersOf,
  scores,
} from "../../model/filters.ts";
import { useSite, useStored } from "../../model/hooks.ts";
import { go as goTo, replaceAddress } from "../../model/state.ts";
import { counted, grouped } from "../../model/words.ts";
import {
  errorOf,
  type FacetAnswer,
  histograms,
  inLabels,
  type Problem,
  problemIn,
  useAnswers,
} from "./answers.ts";
import { ChoiceList } from "./choice-list.tsx";
import { chartOf, Histogram } from "./histogram.tsx";
import { RecomputeButton, RecomputePanel, useRecomputing } from "./recompute.tsx";
import { SideContent, Tabs } from "./side.tsx";

/** The archive of resolved markets; without an Aegis key, what that opens. */
export function Archive({ query }: { query: URLSearchParams }) {
  const plan = useStored((state) => state.plan);
  const round = useStored((state) => state.round);
  return (
    <View
      title="Archive"
      lede={
        <p class="lede">Prediction markets that have resolved, with their scores, outcomes and disputes.</p>
      }
    >
      {plan === "aegis" ? (
        <Explorer key={round} query={query} />
      ) : (
        <Closed subject="The archive" query={query} />
      )}
    </View>
  );
}

const versions = labels.filter((name) => name.endsWith("_version"));
const [composite = "", ...signals] = scores;
const order = [composite, ...labels.filter((name) => !versions.includes(name)), ...signals, ...versions];

/** Search box, choices with counts, pictures, and the markets. The address holds the query, but never the key. */
function Explorer({ query }: { query: URLSearchParams }) {
  const recomputing = useRecomputing();
  const answers = useAnswers(query, recomputing.refuse);
  const { shown, error, isBusy, isSideBusy, again } = answers;
  const { asOf, total } = shown;
  useFocusKept();
  const trouble = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // The reader may have scrolled to the end of a list, where the error is out of view.
    if (error !== undefined) trouble.current?.scrollIntoView({ block: "nearest" });
  }, [error]);
  const go = (next: URLSearchParams) => {
    const address = archiveAddress(next);
    if (location.hash === address) again();
    else goTo(address);
  };
  // The same problem at every render, so that its field is focused once.
  const problem = useMemo(() => problemIn(error), [error]);
  const facet = (name: string) => {
    const answer = shown.facets[name];
    const common = { facet: name, query, answer, isBusy, go };
    return histograms.includes(name) ? (
      <Histogram key={name} {...common} problem={problem} preview={answers.preview} />
    ) : (
      <ChoiceList key={name} {...common} />
    );
  };
  const state = query.get("asOf");
  const busy = (is: boolean) => (is ? "true" : undefined);
  return (
    <>
      <SkipTo id="side">Skip to the markets</SkipTo>
      <Search {...{ query, problem, go }} />
      <div>
        <AsOf key={state ?? ""} asOf={state} go={(wanted) => go(changed(query, { asOf: wanted }))} />
      </div>
      <div class="row found">
        <p class={total?.isRecomputed ? "count recomputed" : "count"} role="status" aria-busy={busy(isBusy)}>
          {total && (
            <>
              <b>{grouped(total.count)}</b>
              {total.count === 1 ? " market matches" : " markets match"}
            </>
          )}
        </p>
        <PlainButton
          class="plain opens"
          onClick={() => document.querySelector<HTMLDialogElement>(".sheet")?.showModal()}
        >
          Filters
        </PlainButton>
        <RecomputeButton {...{ asOf, recomputing }} />
        <Chosen query={query} />
      </div>
      <RecomputePanel key={asOf} {...{ asOf, recomputing }} changed={again} />
      <div ref={trouble} class="problem">
        {error !== undefined && !problem && <Failure error={inLabels(error)} again={again} />}
      </div>
      <div class="explorer" aria-busy={busy(isBusy)}>
        <Sheet total={total?.count} problem={problem}>
          {order.map(facet)}
        </Sheet>
        <div>
          <h2 class="unseen">Results</h2>
          {facet("month")}
          <div class="along">
            <TakeAnyAlong charts={chartsOf(shown.facets)} />
          </div>
          <Tabs query={query} />
          <div id="side" class="side" aria-busy={busy(isSideBusy)} tabIndex={-1}>
            {shown.side ? (
              <SideContent {...{ side: shown.side, again }} />
            ) : (
              error === undefined && <Sketch words="Asking for what matches…" />
            )}
          </div>
        </div>
      </div>
    </>
  );
}

/** Returns the focus to a link that moved to another place, such as the choice just made, which comes first now. */
function useFocusKept() {
  const key = document.activeElement?.getAttribute("data-key");
  useLayoutEffect(() => {
    if (key && document.activeElement === document.body)
      document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
  });
}

/** The histograms that can be saved and cited. */
const chartsOf = (answers: Record<string, FacetAnswer>): Taken[] =>
  ["month", ...scores].flatMap((facet) => {
    const answer = answers[facet];
    return answer ? [chartOf(facet, answer.counts, othersOf(facet, filtersOf(answer.query)))] : [];
  });

interface SearchProps {
  query: URLSearchParams;
  problem: Problem;
  go: (query: URLSearchParams) => void;
}

/** The box to search questions for words. The search starts a moment after the last letter. */
function Search({ query, problem, go }: SearchProps) {
  const { store } = useSite();
  const find = (q: string) => {
    const next = changed(query, { q });
    // One entry of the history for a search, not one for each letter.
    if (query.has("q")) replaceAddress(store, archiveAddress(next));
    else go(next);
  };
  const error = errorOf("q", problem);
  return (
    <search>
      {/* The Enter key and the button end the field's change first, and that searches. */}
      <form class="search" noValidate onSubmit={(event) => event.preventDefault()}>
        <div class="joined">
          <Field
            query={query}
            text={query.get("q") ?? ""}
            id="q"
            type="search"
            dir="auto"
            placeholder="Search questions: fed cut*"
            aria-label={labelOf("q")}
            {...refused("q", error)}
            enter={find}
            pause={250}
          />
          <button type="submit">Search</button>
        </div>
        <Refusal of="q" error={error} />
      </form>
    </search>
  );
}

interface SheetProps {
  /** How many markets match, if known. */
  total: number | undefined;
  problem: Problem;
  children: ComponentChildren;
}

/** The filters: beside the markets, and on small screens, where they would hide the markets, in a sheet over them. */
function Sheet({ total, problem, children }: SheetProps) {
  const sheet = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const narrow = matchMedia("(max-width: 56rem)");
    const place = () => {
      sheet.current?.close();
      sheet.current?.toggleAttribute("open", !narrow.matches);
    };
    narrow.addEventListener("change", place);
    place();
    return () => narrow.removeEventListener("change", place);
  }, []);
  useLayoutEffect(() => {
    const field = problem ? document.getElementById(problem.parameter) : null;
    const { current } = sheet;
    if (current?.contains(field) && !current.open) current.showModal();
    field?.focus();
  }, [problem]);
  return (
    <dialog ref={sheet} class="sheet" aria-labelledby="filters">
      <h2 id="filters" class="unseen">
        Filters
      </h2>
      {children}
      <p class="done" role="status">
        <button type="submit" onClick={() => sheet.current?.close()}>
          {total === undefined ? "Show markets" : `Show ${counted(total, "market")}`}
        </button>
      </p>
    </dialog>
  );
}

function Chosen({ query }: { query: URLSearchParams }) {
  const filters = [...filtersOf(query)];
  return (
    <ul class="row bare chosen" aria-label="Filters in effect">
      {filters.map(([name, value]) => (
        <li key={name}>
          <a href={archiveAddress(changed(query, { [name]: null }))} data-key={`remove ${name}`}>
            <FilterWords name={name} value={value} />
            <span aria-hidden="true"> ×</span>
            <span class="unseen"> (take away)</span>
          </a>
        </li>
      ))}
      {filters.length > 1 && (
        <li>
          <a href="#/archive">Clear all</a>
        </li>
      )}
    </ul>
  );
}
