import { scores } from "../../../../schemas/fields.ts";
import { nameOfState } from "./asof.js";
import { html } from "./dom.js";
import { spoken } from "./words.js";

export { dimensions, labels, scores } from "../../../../schemas/fields.ts";

/** @import { Filters } from "../../client/client.ts" */

/** What the archive's right side shows, by the value of `show`. */
export const sides = /** @type {const} */ ({
  "": "Markets",
  score: "Do scores mean something?",
  file: "Download",
});

/**
 * Parameters of the address that are the site's own or choose a part of the result. The others are the service's
 * filters.
 */
const others = ["page", "pageSize", "show", "compare"];

/** @param {URLSearchParams} query */
export const filtersOf = (query) => without(query, others);

/**
 * @param {URLSearchParams} query
 * @param {readonly string[]} names
 */
export const without = (query, names) =>
  new URLSearchParams([...query].filter(([name]) => !names.includes(name)));

/** The parameters by which a facet's own values are chosen.
 * @param {string} facet */
export const ownOf = (facet) =>
  facet === "month" ? ["from", "to"] : scores.includes(facet) ? [`min_${facet}`, `max_${facet}`] : [facet];

/**
 * A count beside a choice says what that choice would lead to, so the facet's own filter does not apply to it.
 * @param {string} facet
 * @param {URLSearchParams} filters
 */
export const othersOf = (facet, filters) => without(filters, ownOf(facet));

/** How the service is asked for the counts of a facet.
 * @param {string} facet
 * @param {URLSearchParams} filters */
export const facetAsked = (facet, filters) => ({
  path: "markets/facets",
  filters: new URLSearchParams([["by", facet], ...filters]),
});

/** @param {URLSearchParams} query */
export const archiveAddress = (query) => (query.size > 0 ? `#/archive?${query}` : "#/archive");

/**
 * The query after a change: null takes a parameter away. It begins on the first page.
 * @param {URLSearchParams} query
 * @param {Record<string, string | null>} changes
 */
export function changed(query, changes) {
  const other = without(query, ["page", ...Object.keys(changes)]);
  for (const [name, value] of Object.entries(changes)) if (value) other.set(name, value);
  return other;
}

/** The label of a field.
 * @param {string} name of a parameter */
export function labelOf(name) {
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field) return `${spoken(field)}, ${end === "min" ? "at least" : "at most"}`;
  if (name === "from" || name === "to") return `Resolved, ${name}`;
  return { q: "Words of the question", asOf: "As of", pageSize: "Markets a page" }[name] ?? spoken(name);
}

/** A filter in words. Texts of others keep their own direction.
 * @param {string} name
 * @param {string} value */
export function inWords(name, value) {
  const own = html("bdi", {}, value);
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field) return [`${spoken(field)} ${end === "min" ? "≥" : "≤"} `, own];
  if (name === "q") return ["“", own, "”"];
  if (name === "disputed") return [valueWords(name, value)];
  if (name === "asOf") return [`As of: ${nameOfState(value)}`];
  if (name === "from" || name === "to") return [`Resolved ${name === "to" ? "up to" : name} `, own];
  if (name === "tier") return [`Tier: ${value.replaceAll(",", " or ")}`];
  return [`${labelOf(name)}: `, own];
}

/** A value of a facet in words.
 * @param {string} facet
 * @param {string} value */
export const valueWords = (facet, value) =>
  facet !== "disputed" ? value : value === "true" ? "Disputed" : value === "false" ? "Undisputed" : value;

/**
 * Answers with the total of the markets that match, and with their counts by these facets.
 * @typedef {(by: string[], filters: Filters) => Promise<{ total: number, facets: Record<string, unknown> }>} Ask
 */

/** Counts of the markets by a facet, under the filters that the query string says.
 * @typedef {(facet: string, filters: URLSearchParams) => unknown} Counts */

/**
 * Counts of several facets, each under filters of its own, with one question for all that have the same.
 * @param {Ask} ask
 * @param {readonly [facet: string, filters: URLSearchParams][]} wanted
 * @returns {Promise<Counts>}
 */
export async function countsOf(ask, wanted) {
  /** @type {Map<string, Set<string>>} */
  const groups = new Map();
  for (const [facet, filters] of wanted)
    groups.set(`${filters}`, (groups.get(`${filters}`) ?? new Set()).add(facet));
  const answers = new Map(
    await Promise.all(
      [...groups].map(async ([text, facets]) => {
        // Who answers checks the texts that were typed in, and says what is wrong with them.
        const filters = /** @type {Filters} */ (Object.fromEntries(new URLSearchParams(text)));
        return /** @type {const} */ ([text, await ask([...facets], filters)]);
      }),
    ),
  );
  return (facet, filters) => answers.get(`${filters}`)?.facets[facet];
}
