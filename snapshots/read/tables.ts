import type { z } from "zod";
import type { endpoints } from "../../schemas/endpoints.ts";
import type { LabelFacet, MonthFacet, ScoreFacet } from "../../schemas/envelopes.ts";
import { type ProtocolScore, type TableId, tableColumns } from "../../schemas/records.ts";
import { type Cell, type CsvForm, csvRecord } from "./archive/csv.ts";

type Answer<Id extends TableId> = z.infer<(typeof endpoints)[Id]["response"]>;
type Row = Readonly<Record<string, unknown>>;

/** Members of a row have the names of the columns. */
const rowsOf: { [Id in TableId]: (answer: Answer<Id>) => readonly Row[] } = {
  listScores: ({ scores }) => scores,
  getScore: (record) => [flat(record)],
  scoreHistory: ({ slug, points }) => points.map((point) => ({ slug, ...point })),
  scoreDimensions: ({ slug, updatedAt, dimensions }) =>
    dimensions.map((dimension) => ({ slug, updatedAt, ...dimension })),
  marketFacets: ({ facets }) =>
    (Object.entries(facets) as [string, LabelFacet | ScoreFacet | MonthFacet][]).flatMap(
      ([facet, counts]) => [
        ...counts.buckets.map((bucket) => ({
          facet,
          kind: "value" in bucket ? "value" : "range",
          ...bucket,
        })),
        // A version may be an empty text, so the kind distinguishes it from the rest of the values.
        ...("other" in counts ? [{ facet, kind: "other", ...counts.other }] : []),
      ],
    ),
};

const flat = ({ dimensions, cascade, findings, metadata, ...others }: ProtocolScore): Row => ({
  ...others,
  ...dimensions,
  ...cascade,
  ...findings,
  ...metadata,
});

/** A header line, then a record for each row (INTERFACE 4.15). */
function tableOf(id: TableId, rows: readonly Row[]): string {
  const columns = tableColumns[id];
  const records = rows.map((row) => columns.map((name) => (row[name] ?? "") as Cell));
  return [columns, ...records].map(csvRecord).join("");
}

/** `json` is the text of an endpoint's answer, in parts. */
export function asTable<Id extends TableId>(id: Id, json: readonly Buffer[], { mark }: CsvForm): Buffer {
  return Buffer.from(mark + tableOf(id, rowsOf[id](JSON.parse(Buffer.concat(json).toString()))));
}
