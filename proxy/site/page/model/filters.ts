import { filterFields, isRange } from "../../../../schemas/filters.ts";
import { marketDimensionKeys } from "../../../../schemas/market.ts";
import type { Filters } from "../../client/client.ts";
import { nameOfState, spoken } from "./words.ts";

/** The tabs beside the archive's filters, by the value of `show`. */
export const sides = {
  "": "Markets",
  score: "Do scores mean something?",
  file: "Download",
} as const;

/**
 * Parameters of the address that belong to the site or choose a part of the result. The others are the service's
 * filters.
 */
const others = ["page", "pageSize", "show", "compare"];

export const filtersOf = (query: URLSearchParams) => without(query, others);

export const without = (query: URLSearchParams, names: readonly string[]) =>
  new URLSearchParams([...query].filter(([name]) => !names.includes(name)));

/** The parameters that choose a facet's own values. */
export const ownOf = (facet: string) =>
  facet === "month" ? ["from", "to"] : scores.includes(facet) ? [`min_${facet}`, `max_${facet}`] : [facet];

/**
 * The count beside a choice says how many markets that choice would show, so the facet's own filter does not apply to
 * it.
 */
export const othersOf = (facet: string, filters: URLSearchParams) => without(filters, ownOf(facet));

export const facetRequest = (facet: string, filters: URLSearchParams) => ({
  path: "markets/facets",
  filters: new URLSearchParams([["by", facet], ...filters]),
});

export const archiveAddress = (query: URLSearchParams) =>
  query.size > 0 ? `#/archive?${query}` : "#/archive";

/** The address of a market, in the snapshot that `asOf` selects. */
export const marketAddress = (id: string, asOf?: string | null) =>
  `#/markets/${id}${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;

/** The query after a change: null removes a parameter. It begins on the first page. */
export function changed(query: URLSearchParams, changes: Record<string, string | null>) {
  const other = without(query, ["page", ...Object.keys(changes)]);
  for (const [name, value] of Object.entries(changes)) if (value) other.set(name, value);
  return other;
}

/** The label of the field for a parameter. */
export function labelOf(name: string) {
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field) return `${spoken(field)}, ${end === "min" ? "at least" : "at most"}`;
  if (name === "from" || name === "to") return `Resolved, ${name}`;
  return { q: "Words of the question", asOf: "As of", pageSize: "Markets a page" }[name] ?? spoken(name);
}

export const valueWords = (facet: string, value: string) =>
  facet !== "disputed" ? value : value === "true" ? "Disputed" : value === "false" ? "Undisputed" : value;

/** A filter in words: what stands before its value, the value, and what stands behind it. */
export function filterParts(name: string, value: string): [before: string, own: string, after?: string] {
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field) return [`${spoken(field)} ${end === "min" ? "≥" : "≤"} `, value];
  if (name === "q") return ["“", value, "”"];
  if (name === "disputed") return ["", valueWords(name, value)];
  if (name === "from" || name === "to") return [`Resolved ${name === "to" ? "up to" : name} `, value];
  if (name === "asOf") return ["As of: ", nameOfState(value)];
  return [`${labelOf(name)}: `, name === "tier" ? value.replaceAll(",", " or ") : value];
}

/** Answers with the total of the markets that match, and with their counts by these facets. */
export type Ask = (
  by: string[],
  filters: Filters,
) => Promise<{ total: number; facets: Record<string, unknown> }>;

/** Counts of the markets by a facet, under the filters of the query string. */
export type Counts = (facet: string, filters: URLSearchParams) => unknown;

/** Counts of several facets, each under its own filters. Facets with the same filters share one request. */
export async function countsOf(
  ask: Ask,
  wanted: readonly [facet: string, filters: URLSearchParams][],
): Promise<Counts> {
  const groups = new Map<string, Set<string>>();
  for (const [facet, filters] of wanted)
    groups.set(`${filters}`, (groups.get(`${filters}`) ?? new Set()).add(facet));
  const answers = new Map(
    await Promise.all(
      [...groups].map(async ([text, facets]) => {
        // The service, or the evaluator in this browser, checks the typed texts and says what is wrong with them.
        const filters = Object.fromEntries(new URLSearchParams(text)) as Filters;
        return [text, await ask([...facets], filters)] as const;
      }),
    ),
  );
  return (facet, filters) => answers.get(`${filters}`)?.facets[facet];
}

/** The formula versions that are compared: none, or two. An address may name one alone. */
export const comparedIn = (query: URLSearchParams) => query.getAll("compare").slice(0, 2);

export const dimensions: readonly string[] = marketDimensionKeys;

const named = (rows: typeof filterFields): readonly string[] => rows.map(({ field }) => field);

/** The fields that the site filters by lists, and those that it filters by histograms. */
export const labels = named(filterFields.filter((row) => !isRange(row)));
export const scores = named(filterFields.filter(isRange));
