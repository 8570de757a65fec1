import { useLayoutEffect, useRef } from "preact/hooks";
import type { MarketPage } from "../../../../../schemas/envelopes.ts";
import { Moment, Tier } from "../../components/text.tsx";
import { archiveAddress, changed, marketAddress } from "../../model/filters.ts";
import { go } from "../../model/state.ts";
import { grouped, numberOf } from "../../model/words.ts";
import { pageAddress } from "./answers.ts";

/** A page of the markets that match, and the way to the others. */
export function Markets({ page, query }: { page: MarketPage; query: URLSearchParams }) {
  const { total, count, pageSize, markets } = page;
  const last = Math.max(1, Math.ceil(total / pageSize));
  const first = (page.page - 1) * pageSize + 1;
  const range = count > 0 ? `${grouped(first)} to ${grouped(first + count - 1)}` : "none";
  const asOf = query.get("asOf");
  const q = query.get("q");
  const begun = q && !/[*\s]$/.test(q) && `${q}*`;
  return (
    <>
      <ol class="bare" start={first}>
        {markets.map((market) => (
          <MarketItem key={market.id} market={market} asOf={asOf} />
        ))}
      </ol>
      <nav class="pager" aria-label="Pages">
        <p class="quiet">
          {total > 0
            ? `Showing ${range} of ${grouped(total)}.`
            : "Take a filter away or widen a range to see markets. "}
          {total === 0 && begun && (
            <>
              Or look for words that begin so:{" "}
              <a href={archiveAddress(changed(query, { q: begun }))}>{begun}</a>
            </>
          )}
        </p>
        {total > 0 && <Pager query={query} page={page.page} last={last} />}
      </nav>
    </>
  );
}

/** For a link that leads nowhere at present: it keeps its place and its name. */
const inert = { role: "link" } as const;

function Pager({ query, page, last }: { query: URLSearchParams; page: number; last: number }) {
  const number = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (number.current) number.current.value = `${page}`;
  }, [query, page]);
  const link = (word: string, target: number) =>
    target >= 1 && target <= last && target !== page ? (
      <a class="button" href={pageAddress(query, target)}>
        {word}
      </a>
    ) : (
      <span class="button inert" aria-disabled="true" {...inert}>
        {word}
      </span>
    );
  const submit = (event: Event) => {
    event.preventDefault();
    const other = new URLSearchParams(query);
    other.set("page", number.current?.value.trim() ?? "");
    go(archiveAddress(other));
  };
  return (
    <div class="row tight pages">
      {link("First", 1)}
      {link("Previous", page > last ? last : page - 1)}
      {link("Next", page + 1)}
      {link("Last", last)}
      <form class="row tight" onSubmit={submit} noValidate aria-label="Page by number">
        <label for="page">Page</label>
        <input ref={number} id="page" type="text" inputMode="numeric" autocomplete="off" />
        <span>of {grouped(last)}</span>
        <button type="submit" class="plain">
          Go
        </button>
      </form>
    </div>
  );
}

/** A market in a list, with a link to its page in the snapshot that `asOf` selects. */
const MarketItem = ({
  market: { id, question, category, composite, tier, resolvedOutcome, resolvedAt, disputed, topRiskDriver },
  asOf,
}: {
  market: MarketPage["markets"][number];
  asOf: string | null;
}) => (
  <li class={`market tier-${numberOf(tier)}`}>
    <p class="composite" data-meaning="composite">
      <span class="unseen">Composite </span>
      <b>{composite}</b>
    </p>
    <div>
      <h3>
        <a class="question" dir="auto" href={marketAddress(id, asOf)}>
          {question}
        </a>
      </h3>
      <p class="row quiet tags">
        <Tier name={tier} />
        <span dir="auto">{category}</span>
        <span>
          Resolved{" "}
          <b>
            <bdi>{resolvedOutcome}</bdi>
          </b>
        </span>
        {disputed && <span class="disputed">Disputed</span>}
        {topRiskDriver !== "" && <span dir="auto">{topRiskDriver}</span>}
        <Moment iso={resolvedAt} />
      </p>
    </div>
  </li>
);
