import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Failure } from "../../components/failure.tsx";
import { FilterWords } from "../../components/market-item.tsx";
import { archiveAddress, changed, filtersOf, sides } from "../../model/filters.ts";
import { counted } from "../../model/words.ts";
import { Reliability } from "../reliability/reliability.tsx";
import type { useAnswers } from "./answers.ts";
import { Files } from "./files.tsx";
import { Markets } from "./markets.tsx";
import type { Problem } from "./search.tsx";

export const Tabs = ({ query }: { query: URLSearchParams }) => (
  <nav class="tabs" aria-label="What is shown">
    {Object.entries(sides).map(([value, text]) => (
      <a
        key={value}
        href={archiveAddress(changed(query, { show: value }))}
        aria-current={value === (query.get("show") ?? "") ? "true" : undefined}
        data-key={`show ${value}`}
      >
        {text}
      </a>
    ))}
  </nav>
);

interface SideContentProps {
  side: NonNullable<ReturnType<typeof useAnswers>["shown"]["side"]>;
  again: () => void;
}

export function SideContent({ side, again }: SideContentProps) {
  const { query } = side;
  const filters = filtersOf(query);
  if (side.kind === "failed") return <Failure error={side.error} again={again} />;
  if (side.kind === "file") return <Files filters={filters} asOf={side.asOf} total={side.total} />;
  return (
    <div class={side.isRecomputed ? "recomputed" : ""}>
      {side.kind === "list" ? (
        <Markets page={side.page} query={query} />
      ) : (
        <Reliability {...{ query, filters, counts: side.counts }} />
      )}
    </div>
  );
}

interface SheetProps {
  /** How many markets match, if known. */
  total: number | undefined;
  problem: Problem;
  children: ComponentChildren;
}

/** The filters: beside the markets, and on small screens, where they would hide the markets, in a sheet over them. */
export function Sheet({ total, problem, children }: SheetProps) {
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
  const wrong = problem?.parameter;
  const { error } = problem ?? {};
  useLayoutEffect(() => {
    const field = wrong === undefined ? null : document.getElementById(wrong);
    const { current } = sheet;
    if (current?.contains(field) && !current.open) current.showModal();
    field?.focus();
  }, [wrong, error]);
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

export function Chosen({ query }: { query: URLSearchParams }) {
  const filters = [...filtersOf(query)];
  return (
    <ul class="chosen" aria-label="Filters in effect">
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
