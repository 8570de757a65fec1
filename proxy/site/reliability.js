import { drawn, intervalChart } from "./chart.js";
import { html } from "./dom.js";
import { term } from "./explain.js";
import { archiveAddress, without } from "./filters.js";
import { grouped, percent, percents, tiers } from "./words.js";

/**
 * @import { LabelFacet, ScoreFacet } from "../../schemas/envelopes.ts"
 * @import { Estimate } from "./chart.js"
 * @import { Counts } from "./facets.js"
 */

/** The quantile of the normal distribution for a 95 % interval. */
const z = 1.959964;

/**
 * The share of `hits` among `n`, with its 95 % interval after Wilson, which holds for small shares and small numbers too.
 * @param {number} hits
 * @param {number} n
 * @returns {Estimate}
 */
export function wilson(hits, n) {
  if (n === 0) return { share: 0, low: 0, high: 1, n };
  const share = hits / n;
  const scale = 1 + z ** 2 / n;
  const middle = (share + z ** 2 / (2 * n)) / scale;
  const half = (z * Math.sqrt((share * (1 - share)) / n + z ** 2 / (4 * n ** 2))) / scale;
  return { share, low: Math.max(0, middle - half), high: Math.min(1, middle + half), n };
}

/** Which counts the picture needs.
 * @param {URLSearchParams} filters
 * @param {string | null} version to compare with all
 * @returns {[facet: string, filters: URLSearchParams][]} */
export function wantedFor(filters, version) {
  const all = without(filters, ["disputed"]);
  const those = of(all, version);
  return [
    ["composite", all],
    ["tier", all],
    ["formula_version", all],
    ...(version === null
      ? []
      : /** @type {[string, URLSearchParams][]} */ ([
          ["composite", those],
          ["tier", those],
        ])),
  ];
}

/**
 * @param {URLSearchParams} filters
 * @param {string | null} version
 */
function of(filters, version) {
  const those = new URLSearchParams(filters);
  if (version !== null) those.set("formula_version", version);
  return those;
}

/**
 * Whether low scores go with disputed resolutions: the share of disputed markets by composite and by tier.
 * @param {URLSearchParams} query
 * @param {URLSearchParams} filters
 * @param {Counts} counts
 * @param {AbortSignal} signal
 */
export function reliability(query, filters, counts, signal) {
  const version = query.get("compare");
  const all = without(filters, ["disputed"]);
  const composite = /** @type {ScoreFacet} */ (counts("composite", all)).buckets;
  const versions = /** @type {LabelFacet} */ (counts("formula_version", all)).buckets;
  const hits = composite.reduce((sum, { disputed }) => sum + disputed, 0);
  const n = composite.reduce((sum, { count }) => sum + count, 0);
  const byTier = (/** @type {URLSearchParams} */ which) => {
    const { buckets } = /** @type {LabelFacet} */ (counts("tier", which));
    return tiers.map((name) => {
      const { count = 0, disputed = 0 } = buckets.find(({ value }) => value === name) ?? {};
      return wilson(disputed, count);
    });
  };
  const byScore = (/** @type {URLSearchParams} */ which) =>
    /** @type {ScoreFacet} */ (counts("composite", which)).buckets.map(({ disputed, count }) =>
      wilson(disputed, count),
    );
  const groups = [
    {
      title: "By composite, in steps of 50",
      names: composite.map(({ from }) => `${from}`),
      estimates: byScore,
    },
    { title: "By tier", names: tiers, estimates: byTier },
  ];
  const other = new URLSearchParams(query);
  const link = (/** @type {string | null} */ value, /** @type {string} */ text) => {
    if (value === null) other.delete("compare");
    else other.set("compare", value);
    return html(
      "a",
      {
        href: archiveAddress(other),
        "aria-current": value === version ? "true" : undefined,
        "data-key": `compare ${value}`,
      },
      text,
    );
  };
  return [
    html("p", { class: "verdict" }, verdictOn(composite)),
    html(
      "p",
      { class: "quiet" },
      "Dots are the share of ",
      term("disputed", "disputed"),
      ` markets, bars their 95 % intervals, and n the number of markets. The dashed line is the share of all, ${percent(n ? hits / n : 0)}. A filter by dispute does not apply here.`,
    ),
    versions.length > 1 &&
      html(
        "p",
        { class: "versions" },
        html("span", {}, "Beside all, formula version "),
        link(null, "none"),
        versions.slice(0, 6).map(({ value }) => link(value, value)),
      ),
    version !== null &&
      html(
        "p",
        { class: "legend" },
        html("span", { class: "key first" }, "● All"),
        html("span", { class: "key second" }, `◆ ${version}`),
      ),
    ...groups.map(({ title, names, estimates }) => {
      const first = estimates(all);
      const second = version === null ? undefined : estimates(of(all, version));
      const label = `Share of disputed markets, ${title.toLowerCase()}. The table below has its numbers.`;
      return html(
        "section",
        { class: "shares" },
        html("h3", {}, title),
        drawn(
          (width) =>
            intervalChart({ names, first, mean: n ? hits / n : 0, label, ...(second && { second }) }, width),
          signal,
        ),
        html(
          "details",
          {},
          html("summary", {}, `${title}, as a table`),
          shareTable(names, [
            ["All", first],
            ...(second ? [/** @type {const} */ ([`${version}`, second])] : []),
          ]),
        ),
      );
    }),
  ];
}

/**
 * @param {readonly string[]} names
 * @param {readonly (readonly [string, readonly Estimate[]])[]} series
 */
const shareTable = (names, series) =>
  html(
    "div",
    { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Shares as a table" },
    html(
      "table",
      { class: "plain-table" },
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          ["Group", "Formula", "Disputed", "95 % interval", "n"].map((text) =>
            html("th", { scope: "col" }, text),
          ),
        ),
      ),
      html(
        "tbody",
        {},
        names.flatMap((name, place) =>
          series.map(([of, estimates]) => {
            const estimate = estimates[place] ?? wilson(0, 0);
            const { n } = estimate;
            const [share = "", low, high] = percents(estimate);
            return html(
              "tr",
              {},
              html("th", { scope: "row" }, name),
              html("td", {}, of),
              html("td", { class: "number" }, n ? share : "–"),
              html("td", { class: "number" }, n ? `${low} to ${high}` : "–"),
              html("td", { class: "number" }, grouped(n)),
            );
          }),
        ),
      ),
    ),
  );

/**
 * Compares the half of the markets with lower scores with the other half.
 * @param {ScoreFacet["buckets"]} buckets
 */
export function verdictOn(buckets) {
  const n = buckets.reduce((sum, { count }) => sum + count, 0);
  let cut = 0;
  for (let below = 0; cut < buckets.length - 1; cut += 1) {
    const next = below + (buckets[cut]?.count ?? 0);
    if (next > n - below) break;
    below = next;
  }
  const half = (/** @type {ScoreFacet["buckets"]} */ part) =>
    wilson(
      part.reduce((sum, { disputed }) => sum + disputed, 0),
      part.reduce((sum, { count }) => sum + count, 0),
    );
  const [low, high] = [half(buckets.slice(0, cut)), half(buckets.slice(cut))];
  if (low.n === 0 || high.n === 0) return "There are too few markets to compare low scores with high ones.";
  const told = (/** @type {Estimate} */ estimate) => {
    const [share, from, to] = percents(estimate);
    return `${share} (${from} to ${to}, n = ${grouped(estimate.n)})`;
  };
  const border = buckets[cut]?.from;
  const says =
    low.low > high.high
      ? "The intervals lie apart: here a higher score goes with fewer disputes."
      : low.high < high.low
        ? "The intervals lie apart: here a higher score goes with more disputes."
        : "The intervals overlap: here the score does not tell disputes apart.";
  return `Below ${border}, ${told(low)} of the markets were disputed; from ${border} on, ${told(high)}. ${says}`;
}
