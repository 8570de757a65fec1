import { useLayoutEffect, useRef } from "preact/hooks";
import type { MarketPage } from "../../../../../schemas/envelopes.ts";
import { Copyable, Moment, Tier } from "../../components/text.tsx";
import { Failure } from "../../components/view.tsx";
import { archiveAddress, changed, filtersOf, marketAddress, sides } from "../../model/filters.ts";
import { useSaving, useSite } from "../../model/hooks.ts";
import { go } from "../../model/state.ts";
import { counted, grouped, numberOf } from "../../model/words.ts";
import { pageAddress, type useAnswers } from "./answers.ts";
import { Reliability } from "./reliability.tsx";

export const Tabs = ({ query }: { query: URLSearchParams }) => (
  <nav class="row tabs" aria-label="What is shown">
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

const kinds = [
  {
    name: "CSV",
    // Without the mark, Excel takes a file for another encoding.
    type: "text/csv; bom=present",
    words: "One line a market, for spreadsheets and data frames: the fields without evidence.",
  },
  {
    name: "NDJSON",
    type: "application/x-ndjson",
    words: "One JSON text a line, byte for byte as in the archive, with all evidence.",
  },
];

/** The most markets in a file that the page downloads itself: it holds the whole file in memory. */
const fewEnough = 20_000;

/** All markets that match, as files and as lines to paste. */
function Files({ filters, asOf, total }: { filters: URLSearchParams; asOf: string; total: number }) {
  const { api } = useSite();
  const { problem, saving, save } = useSaving();
  const query = new URLSearchParams({ ...Object.fromEntries(filters), asOf });
  const path = `${api.base}/markets/historical?${query}`;
  return (
    <div>
      <p>
        {total > 0 ? `All ${counted(total, "market")} that match` : "No market matches, so a file holds none"}
        {`, of one snapshot. Each file takes ${counted(Math.max(1, Math.ceil(total / 500)), "request")} of the day’s ` +
          "quota. In the lines, $KEY is your key."}
      </p>
      {kinds.map(({ name, type, words }) => {
        const file = `markets.${name.toLowerCase()}`;
        return (
          <section key={name}>
            <h3>{name}</h3>
            <p class="quiet">{words}</p>
            <Copyable
              name={`Command for ${name}`}
              text={`curl -sS --fail --compressed -H "x-api-key: $KEY" -H "Accept: ${type}" "${path}" -o ${file}`}
            />
            {total <= fewEnough && (
              <button
                type="button"
                disabled={saving === file}
                onClick={() => save(file, () => api.download(path, type))}
              >
                Download {name}
              </button>
            )}
          </section>
        );
      })}
      <section>
        <h3>Delta Sharing</h3>
        <p class="quiet">
          For Spark, pandas, Power BI and Tableau: the whole archive as a table, as it was last exported. The
          profile tells them where it is. It holds your key, so keep it as you keep that.
        </p>
        <button type="button" onClick={() => save("prs.share", () => api.sharingProfile())}>
          Download profile
        </button>
      </section>
      <div role="status">{problem !== undefined && <Failure error={problem} />}</div>
    </div>
  );
}

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
      <span class="button" aria-disabled="true" {...inert}>
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
