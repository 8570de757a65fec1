import { Failure } from "../../components/failure.tsx";
import { Copyable } from "../../components/text.tsx";
import { archiveAddress, changed, filtersOf, sides } from "../../model/filters.ts";
import { useSaving, useSite } from "../../model/hooks.ts";
import { counted } from "../../model/words.ts";
import type { useAnswers } from "./answers.ts";
import { Markets } from "./markets.tsx";
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
