import { scores } from "../../../../schemas/fields.ts";
import type { Filters } from "../../client/client.ts";
import { spoken } from "./words.ts";

export { dimensions, labels, scores } from "../../../../schemas/fields.ts";

/** What the archive's right side shows, by the value of `show`. */
export const sides = {
  "": "Markets",
  score: "Do scores mean something?",
  file: "Download",
} as const;

/**
 * Parameters of the address that are the site's own or choose a part of the result. The others are the service's
 * filters.
 */
const others = ["page", "pageSize", "show", "compare"];

export const filtersOf = (query: URLSearchParams) => without(query, others);

export const without = (query: URLSearchParams, names: readonly string[]) =>
  new URLSearchParams([...query].filter(([name]) => !names.includes(name)));

/** The parameters by which a facet's own values are chosen. */
export const ownOf = (facet: string) =>
  facet === "month" ? ["from", "to"] : scores.includes(facet) ? [`min_${facet}`, `max_${facet}`] : [facet];

/**
 * A count beside a choice says what that choice would lead to, so the facet's own filter does not apply to it.
 */
export const othersOf = (facet: string, filters: URLSearchParams) => without(filters, ownOf(facet));

/** How the service is asked for the counts of a facet. */
export const facetAsked = (facet: string, filters: URLSearchParams) => ({
  path: "markets/facets",
  filters: new URLSearchParams([["by", facet], ...filters]),
});

/** The address of the archive with this query. */
export const archiveAddress = (query: URLSearchParams) =>
  query.size > 0 ? `#/archive?${query}` : "#/archive";

/** The address of a market, in the snapshot that `asOf` selects. */
export const marketAddress = (id: string, asOf?: string | null) =>
  `#/markets/${id}${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;

/** The query after a change: null takes a parameter away. It begins on the first page. */
export function changed(query: URLSearchParams, changes: Record<string, string | null>) {
  const other = without(query, ["page", ...Object.keys(changes)]);
  for (const [name, value] of Object.entries(changes)) if (value) other.set(name, value);
  return other;
}

/**
 * The label of a field.
 * @param name of a parameter
 */
export function labelOf(name: string) {
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field) return `${spoken(field)}, ${end === "min" ? "at least" : "at most"}`;
  if (name === "from" || name === "to") return `Resolved, ${name}`;
  return { q: "Words of the question", asOf: "As of", pageSize: "Markets a page" }[name] ?? spoken(name);
}

/** A value of a facet in words. */
export const valueWords = (facet: string, value: string) =>
  facet !== "disputed" ? value : value === "true" ? "Disputed" : value === "false" ? "Undisputed" : value;

/** Answers with the total of the markets that match, and with their counts by these facets. */
export type Ask = (
  by: string[],
  filters: Filters,
) => Promise<{ total: number; facets: Record<string, unknown> }>;

/** Counts of the markets by a facet, under the filters that the query string says. */
export type Counts = (facet: string, filters: URLSearchParams) => unknown;

/** Counts of several facets, each under filters of its own, with one question for all that have the same. */
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
        // Who answers checks the texts that were typed in, and says what is wrong with them.
        const filters = Object.fromEntries(new URLSearchParams(text)) as Filters;
        return [text, await ask([...facets], filters)] as const;
      }),
    ),
  );
  return (facet, filters) => answers.get(`${filters}`)?.facets[facet];
}

/** The formula versions that are compared: none, or two. An address may name one alone. */
export const comparedIn = (query: URLSearchParams) => query.getAll("compare").slice(0, 2);
