import { useLayoutEffect, useRef } from "preact/hooks";
import { ApiError } from "../../../client/client.ts";
import { Failure } from "../../components/failure.tsx";
import { archiveAddress, changed, labelOf, labels, ownOf } from "../../model/filters.ts";
import { replaceAddress } from "../../model/router.ts";
import { useSite } from "../../model/store.ts";
import { histograms } from "./answers.ts";

interface SearchProps {
  query: URLSearchParams;
  problem: Problem;
  go: (query: URLSearchParams) => void;
}

/** The box to search questions for words. The search starts a moment after the last letter. */
export function Search({ query, problem, go }: SearchProps) {
  const { store } = useSite();
  const field = useRef<HTMLInputElement>(null);
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined);
  const find = () => {
    clearTimeout(typing.current);
    const q = field.current?.value.trim() ?? "";
    if (q === (query.get("q") ?? "")) return;
    const next = changed(query, { q });
    // One entry of the history for a search, not one for each letter.
    if (query.has("q")) replaceAddress(store, archiveAddress(next));
    else go(next);
  };
  useLayoutEffect(() => {
    if (field.current && document.activeElement !== field.current) field.current.value = query.get("q") ?? "";
    return () => clearTimeout(typing.current);
  }, [query]);
  const latest = useRef(find);
  latest.current = find;
  const isWrong = problem?.parameter === "q";
  return (
    <search>
      <form
        class="search"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          find();
        }}
      >
        <div class="joined">
          <input
            ref={field}
            id="q"
            type="search"
            autocomplete="off"
            spellcheck={false}
            dir="auto"
            placeholder="Search questions: fed cut*"
            aria-label={labelOf("q")}
            aria-describedby="problem-q"
            aria-invalid={isWrong ? "true" : undefined}
            onInput={() => {
              clearTimeout(typing.current);
              typing.current = setTimeout(() => latest.current(), 250);
            }}
          />
          <button type="submit">Search</button>
        </div>
        <div id="problem-q">{isWrong && <Failure error={problem.error} />}</div>
      </form>
    </search>
  );
}

/** A refused value, by the field's parameter. */
export type Problem = { parameter: string; error: unknown } | undefined;

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
