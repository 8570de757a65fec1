import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { ApiError } from "../../../client/client.ts";
import { Field, Refusal, refused } from "../../components/field.tsx";
import { FilterWords } from "../../components/text.tsx";
import { archiveAddress, changed, filtersOf, labelOf, labels, ownOf } from "../../model/filters.ts";
import { useSite } from "../../model/hooks.ts";
import { replaceAddress } from "../../model/state.ts";
import { counted } from "../../model/words.ts";
import { histograms } from "./answers.ts";

interface SearchProps {
  query: URLSearchParams;
  problem: Problem;
  go: (query: URLSearchParams) => void;
}

/** The box to search questions for words. The search starts a moment after the last letter. */
export function Search({ query, problem, go }: SearchProps) {
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

/** A refused value, by the field's parameter. */
export type Problem = { parameter: string; error: unknown } | undefined;

export const errorOf = (name: string, problem: Problem) =>
  problem?.parameter === name ? problem.error : undefined;

const fields = ["q", ...histograms.flatMap(ownOf)];

/** The problem of a field, if an error is about the value of one that can show it. */
export function problemIn(error: unknown): Problem {
  const named = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
  return fields.includes(named) ? { parameter: named, error: inLabels(error) } : undefined;
}

/**
 * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
 * contains a `_`. Elsewhere a word like "from" is not a name.
 */
export function inLabels(error: unknown) {
  if (!(error instanceof ApiError)) return error;
  const known = [...labels, ...fields, "page", "pageSize"];
  const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, (name) =>
    known.includes(name) ? `“${labelOf(name)}”` : name,
  );
  const title = "parameter" in error && error.parameter ? "Check this" : error.title;
  return new ApiError(error.code, detail, { title });
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
