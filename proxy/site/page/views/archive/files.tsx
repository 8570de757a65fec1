import { Failure } from "../../components/failure.tsx";
import type { Taken } from "../../components/take-along.tsx";
import { Copyable } from "../../components/text.tsx";
import { facetAsked, filtersOf, othersOf, scores } from "../../model/filters.ts";
import { useSaving } from "../../model/save.ts";
import { useSite } from "../../model/store.ts";
import { counted, spoken } from "../../model/words.ts";
import type { FacetAnswer } from "./answers.ts";
import { SpanPicture, spansOf, totalOf } from "./span-picture.tsx";

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
export function Files({ filters, asOf, total }: { filters: URLSearchParams; asOf: string; total: number }) {
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
          <section key={name} class="take">
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
      <section class="take">
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

const [composite = "", ...signals] = scores;

/** The histograms that can be saved and cited. */
export const chartsOf = (answers: Record<string, FacetAnswer>): Taken[] =>
  ["month", composite, ...signals].flatMap((facet) => {
    const answer = answers[facet];
    if (!answer) return [];
    const { query, counts } = answer;
    const filters = othersOf(facet, filtersOf(query));
    const spans = spansOf(counts);
    return [
      {
        name: `markets-by-${facet}`,
        title: `Resolved markets by ${spoken(facet).toLowerCase()}`,
        filters,
        n: counted(totalOf(spans), "market"),
        picture: () => <SpanPicture {...{ facet, spans, query: filters, log: false }} />,
        asked: () => [facetAsked(facet, filters)],
      },
    ];
  });
