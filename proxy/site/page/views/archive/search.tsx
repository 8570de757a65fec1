import { useLayoutEffect, useRef } from "preact/hooks";
import { archiveAddress, changed, labelOf } from "../../model/filters.ts";
import { replaceAddress } from "../../model/router.ts";
import { useSite } from "../../model/store.ts";
import { Failure } from "../../parts/failure.tsx";
import type { Problem } from "./problem.ts";

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
