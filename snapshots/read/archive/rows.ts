import type { z } from "zod";
import type { endpoints } from "../../../schemas/endpoints.ts";
import type { LabelFacet, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import { Fault, isFault } from "../../../schemas/errors.ts";
import { paging } from "../../../schemas/filters.ts";
import { byMediaType, ndjson } from "../../../schemas/media.ts";
import { type ProtocolScore, type TableId, tableColumns } from "../../../schemas/records.ts";
import { type AsOf, weakTag } from "../answer.ts";
import { awaitBudget } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { invalidParameter, optionalInteger, type Parameters } from "../parameters.ts";
import { type Cell, type CsvForm, csvForms, csvHead, csvOf, csvRecord } from "./csv.ts";
import { readLines } from "./lines.ts";
import {
  type ArchiveQuery,
  archiveQueryOf,
  cursorAt,
  type Position,
  positionOf,
  startOf,
  whileStanding,
} from "./paging.ts";

/** A query of the same address for all rows in one answer. */
export interface RowsQuery extends ArchiveQuery {
  /** Matches behind the cursor that the caller has already. */
  skip: number;
}

export function parseRowsQuery(parameters: Parameters, asOf?: AsOf): RowsQuery {
  for (const name of ["page", "pageSize"]) {
    if (parameters.has(name))
      throw invalidParameter(
        name,
        `${name} belongs to pages of JSON; an answer in NDJSON or CSV has all rows. Leave it out.`,
      );
  }
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && !parameters.has("cursor"))
    throw invalidParameter(
      "skip",
      "skip counts markets behind a cursor: give the X-Cursor they came with, too.",
    );
  return { ...archiveQueryOf(parameters, asOf), skip: skip ?? 0 };
}

export interface RowsForm extends Omit<CsvForm, "mark"> {
  /** What precedes the rows; it depends on the version of the feed. */
  head(version: string): Buffer;
  /** `markets` are JSON texts. */
  textOf(markets: readonly Buffer[], version: string): Promise<Buffer>;
}

// Rows whose pages are fetched concurrently. One at a time, a remote store's latency would set the pace.
const rowsFetched = paging.maxPageSize;
// In the worst case every match lies in another page, and each needs a run inflated. This bounds the memory of one
// response for any filter.
const rowsAtOnce = rowsFetched / 4;

/** All matches from one position on, newest first. Everything but the rows is known before the first one is read. */
export async function askRows(catalog: Catalog, query: RowsQuery, form: RowsForm) {
  const { skip, cursor = "", filter } = query;
  const whole = async <T>(working: Promise<T>) =>
    working.catch((error) => {
      throw skip > 0 && isFault(error, "CURSOR_EXPIRED") ? gone() : error;
    });
  const start = await whole(startOf(catalog, query));
  return {
    commit: start.commit,
    etag: weakTag(start.commit, filter.canonical, cursor, skip, form.name),
    async plan() {
      const standing = <T>(work: () => Promise<T>) => whole(whileStanding(catalog, start, work));
      const first = await standing(() => positionOf(catalog, query, start));
      const { snapshot, matches } = first;
      const remaining = matches.total - first.skip;
      if (skip > remaining)
        throw invalidParameter("skip", `skip is more than the ${remaining} markets behind the cursor.`);
      const position = { ...first, skip: first.skip + skip };
      return {
        snapshot,
        /** Those before this position too. */
        total: matches.total,
        count: remaining - skip,
        advice: "Narrow the filters, or walk the archive by pages, each of which tells the total.",
        /** Continues at this position. */
        cursor: await standing(() => cursorAt(catalog, position)),
        // A collection may delete the snapshot while its rows are read.
        async *read() {
          const chunks = readFrom(catalog, position, form);
          const next = () => standing(() => chunks.next());
          for (let chunk = await next(); !chunk.done; chunk = await next()) yield chunk.value;
        },
      };
    },
  };
}

async function* readFrom(catalog: Catalog, { snapshot, matches, skip }: Position, form: RowsForm) {
  // The head goes out with the first rows: if these cannot be read, nothing has been sent.
  const { feedVersion } = snapshot.commit;
  let head = form.head(feedVersion);
  if (skip >= matches.total) yield { count: 0, text: head };
  const read = (ordinals: readonly number[]) => readLines(snapshot.archive, ordinals, catalog);
  for (let at = skip; at < matches.total; at += rowsFetched) {
    const ordinals = matches.slice(at, rowsFetched);
    await read(ordinals);
    for (let from = 0; from < ordinals.length; from += rowsAtOnce) {
      const some = ordinals.slice(from, from + rowsAtOnce);
      const text = await form.textOf(await (await read(some)).all(), feedVersion);
      yield { count: some.length, text: Buffer.concat([head, text]) };
      head = nothing;
    }
  }
}

const nothing = Buffer.alloc(0);
const lineEnd = Buffer.from("\n");

/** One JSON text a line. */
export const ndjsonForm: RowsForm = {
  name: "rows",
  mediaTypes: [ndjson, `${ndjson}; charset=utf-8`],
  head: () => nothing,
  textOf: async (markets) => Buffer.concat(markets.flatMap((market) => [market, lineEnd])),
};

/** The forms of CSV have a header line, then one record per market (RFC 4180). */
export const rowsForms: readonly RowsForm[] = [
  ndjsonForm,
  ...csvForms.map(({ mark, ...form }) => ({
    ...form,
    head: (version: string) => Buffer.from(mark + csvHead(version)),
    textOf: async (markets: readonly Buffer[], version: string) =>
      Buffer.from(await csvOf(markets, version, awaitBudget)),
  })),
];
export const rowsByType = byMediaType(rowsForms);

/** `skip` counts lines of the snapshot that is gone, so no cursor into the current one can replace it. */
function gone(): Fault {
  return new Fault(
    "CURSOR_EXPIRED",
    "The snapshot of this cursor is no longer kept, and skip counts markets of that one; start again without a cursor.",
    { parameter: "cursor" },
  );
}

type Answer<Id extends TableId> = z.infer<(typeof endpoints)[Id]["response"]>;
type Row = Readonly<Record<string, unknown>>;

/**
 * An endpoint's answer as a header line, then a record for each row (INTERFACE 4.15). `json` is its text, in parts.
 */
export function asTable<Id extends TableId>(id: Id, json: readonly Buffer[], { mark }: CsvForm): Buffer {
  const columns = tableColumns[id];
  const rows = rowsOf[id](JSON.parse(Buffer.concat(json).toString()));
  const records = rows.map((row) => columns.map((name) => (row[name] ?? "") as Cell));
  return Buffer.from(mark + [columns, ...records].map(csvRecord).join(""));
}

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
