import { difference, trend, wilson } from "../statistics.ts";
import { drawn, intervalChart } from "./chart.js";
import { html } from "./dom.js";
import { term } from "./explain.js";
import { archiveAddress, facetAsked, without } from "./filters.js";
import { takeAlong } from "./take.js";
import { grouped, percent, percents, signed, tiers } from "./words.js";

/**
 * @import { LabelFacet, ScoreFacet } from "../../../../schemas/envelopes.ts"
 * @import { Api } from "../api.ts"
 * @import { Estimate } from "./chart.js"
 * @import { Counts } from "./filters.js"
 */

/** The formula versions that are compared: none, or two. An address may name one alone.
 * @param {URLSearchParams} query */
export const comparedIn = (query) => query.getAll("compare").slice(0, 2);

/** Which counts the picture needs.
 * @param {URLSearchParams} filters
 * @param {readonly string[]} versions that are compared
 * @returns {[facet: string, filters: URLSearchParams][]} */
export function wantedFor(filters, versions) {
  const those = versions.length > 0 ? versions.map((version) => of(filters, version)) : [all(filters)];
  return [
    ["formula_version", of(filters)],
    ...those.flatMap(
      (each) =>
        /** @type {[string, URLSearchParams][]} */ ([
          ["composite", each],
          ["tier", each],
        ]),
    ),
  ];
}

/** @param {URLSearchParams} filters */
const all = (filters) => without(filters, ["disputed"]);

/**
 * @param {URLSearchParams} filters
 * @param {string} [version] any if left out
 */
function of(filters, version) {
  const those = without(all(filters), ["formula_version"]);
  if (version !== undefined) those.set("formula_version", version);
  return those;
}

/**
 * Whether low scores go with disputed resolutions: the share of disputed markets by composite and by tier.
 * @param {Api} api
 * @param {URLSearchParams} query
 * @param {URLSearchParams} filters
 * @param {Counts} counts
 * @param {AbortSignal} signal
 */
export function reliability(api, query, filters, counts, signal) {
  const compared = comparedIn(query);
  const versions = /** @type {LabelFacet} */ (counts("formula_version", of(filters))).buckets.map(
    ({ value }) => value,
  );
  const series = (compared.length > 0 ? compared : [undefined]).map((version) => {
    const those = version === undefined ? all(filters) : of(filters, version);
    const composite = /** @type {ScoreFacet} */ (counts("composite", those)).buckets;
    const { buckets } = /** @type {LabelFacet} */ (counts("tier", those));
    return {
      name: version ?? "All",
      those,
      composite,
      byScore: composite.map(({ disputed, count }) => wilson(disputed, count)),
      byTier: tiers.map((name) => {
        const { count = 0, disputed = 0 } = buckets.find(({ value }) => value === name) ?? {};
        return wilson(disputed, count);
      }),
      whole: whole(composite),
    };
  });
  const [one, other] = series;
  if (!one) return [];
  // Without a market there is no share to draw, and 0 % would pass for one.
  const isEmpty = series.every(({ whole: { n } }) => n === 0);
  const groups = /** @type {const} */ ([
    ["By composite, in steps of 50", one.composite.map(({ from }) => `${from}`), "byScore", "composite"],
    ["By tier", tiers, "byTier", "tier"],
  ]);
  const link = (/** @type {string[]} */ pair, /** @type {string} */ text) => {
    const address = without(query, ["compare"]);
    for (const version of pair) address.append("compare", version);
    return html(
      "a",
      {
        href: archiveAddress(address),
        "aria-current":
          pair.length === 0 ? compared.length === 0 : compared.includes(text) ? "true" : undefined,
        "data-key": `compare ${text}`,
      },
      html("bdi", {}, text),
    );
  };
  // Never a version with all: they contain it.
  const pairOf = (/** @type {string} */ version) => {
    if (compared.includes(version)) return compared;
    const beside = compared[0] ?? versions.find((each) => each !== version);
    return compared.length > 0 ? [`${beside}`, version] : [version, `${beside}`];
  };
  return [
    ...series.map(({ name, composite }) =>
      html(
        "p",
        { class: "verdict" },
        compared.length > 0 && html("b", {}, html("bdi", {}, name), ": "),
        verdictOn(composite),
      ),
    ),
    other &&
      one.whole.n * other.whole.n > 0 &&
      html(
        "p",
        {},
        `In all, ${shareOf(one.whole)} of `,
        html("bdi", {}, one.name),
        ` were disputed, and ${shareOf(other.whole)} of `,
        html("bdi", {}, other.name),
        `. ${differenceOf(one.whole, other.whole).words}`,
      ),
    !isEmpty &&
      html(
        "p",
        { class: "quiet" },
        "Dots are the share of ",
        term("disputed", "disputed"),
        " markets, bars their 95 % intervals after Wilson, and n the number of markets; hollow dots are of fewer " +
          "than 30, and arrows with a number are shares above the picture. ",
        !other && `The dashed line is the share of all of them, ${percent(one.whole.share)}. `,
        "Differences have intervals after Newcombe, and the trend is tested after Cochran and Armitage. A filter " +
          "by dispute does not apply here.",
      ),
    versions.length > 1 &&
      html(
        "p",
        { class: "versions" },
        html("span", {}, "Compare formula versions: "),
        link([], "none"),
        versions.slice(0, 6).map((version) => link(pairOf(version), version)),
      ),
    compared.length > 0 &&
      html(
        "p",
        { class: "legend compared" },
        html("span", { class: "first" }, "● ", html("bdi", {}, one.name)),
        other && html("span", { class: "second" }, "◆ ", html("bdi", {}, other.name)),
      ),
    ...(isEmpty ? [] : groups).map(([title, names, kind, facet]) => {
      const label = `Share of disputed markets, ${title.toLowerCase()}. The table below has its numbers.`;
      const picture = {
        names,
        first: one[kind],
        label,
        ...(other ? { second: other[kind] } : { mean: one.whole.share }),
      };
      const shown = drawn((width) => intervalChart(picture, width), signal);
      return html(
        "section",
        { class: compared.length > 0 ? "shares compared" : "shares" },
        html("h3", {}, title),
        shown,
        html(
          "details",
          {},
          html("summary", {}, `${title}, as a table`),
          shareTable(
            title,
            names,
            series.map((each) => [each.name, each[kind]]),
          ),
        ),
        takeAlong(api, {
          name: `disputed-by-${facet}`,
          title: `Share of disputed markets by ${facet}`,
          frame: () => shown,
          asked: () =>
            series.map(({ name, those }) => ({ ...facetAsked(facet, those), ...(other && { name }) })),
        }),
      );
    }),
  ];
}

/**
 * @param {string} title
 * @param {readonly string[]} names
 * @param {readonly (readonly [string, readonly Estimate[]])[]} series
 */
const shareTable = (title, names, series) =>
  html(
    "div",
    { class: "scrolls", tabindex: "0", role: "region", "aria-label": `${title}, as a table` },
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
        names.flatMap((name, index) =>
          series.map(([of, estimates]) => {
            const estimate = estimates[index] ?? wilson(0, 0);
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

/** The share of disputed markets in all buckets together.
 * @param {ScoreFacet["buckets"]} buckets */
const whole = (buckets) =>
  wilson(
    buckets.reduce((sum, { disputed }) => sum + disputed, 0),
    buckets.reduce((sum, { count }) => sum + count, 0),
  );

/** @param {Estimate} estimate */
const shareOf = ({ share, n }) =>
  n > 0 ? `${percent(share)} (${grouped(Math.round(share * n))} of ${grouped(n)})` : "none (0 of 0)";

/**
 * The difference of two shares in words, and whether it is above 0 (1), below (−1), or may be either (0).
 * @param {Estimate} first
 * @param {Estimate} second
 */
function differenceOf(first, second) {
  const { value, low, high } = difference(first, second);
  const sign = low > 0 ? 1 : high < 0 ? -1 : 0;
  const [told, from, to] = points([value, low, high]);
  const words =
    `The difference is ${told} percentage points, with a 95 % interval from ${from} to ${to}, which ` +
    `${sign === 0 ? "includes" : "excludes"} 0.`;
  return { sign, words };
}

/** Shares as percentage points, with as many digits as keep their ends apart and off 0.
 * @param {number[]} shares */
function points(shares) {
  const spelled = (/** @type {number} */ digits) =>
    shares.map((share) => signed(Number((100 * share).toFixed(digits))));
  const tells = (/** @type {string[]} */ texts) =>
    new Set(texts.slice(1)).size > 1 && texts.every((text, index) => text !== "0" || shares[index] === 0);
  return spelled([1, 2, 3].find((digits) => tells(spelled(digits))) ?? 4);
}

/**
 * How few disputed or undisputed markets are too few to test a trend: the test takes their number for a normal
 * variable.
 */
const fewest = 10;

/**
 * Compares the half of the markets with lower scores with the other half, and looks for a trend over all buckets.
 * @param {ScoreFacet["buckets"]} buckets
 */
function verdictOn(buckets) {
  const n = buckets.reduce((sum, { count }) => sum + count, 0);
  let cut = 0;
  for (let below = 0; cut < buckets.length - 1; cut += 1) {
    const next = below + (buckets[cut]?.count ?? 0);
    if (next > n - below) break;
    below = next;
  }
  const [low, high] = [whole(buckets.slice(0, cut)), whole(buckets.slice(cut))];
  if (low.n === 0 || high.n === 0)
    return "There are too few markets here to compare low scores with high ones.";
  const border = buckets[cut]?.from;
  const { sign, words } = differenceOf(low, high);
  const says =
    sign > 0
      ? "Here a higher score goes with fewer disputes."
      : sign < 0
        ? "Here a higher score goes with more disputes."
        : "Between these halves there is no clear difference.";
  return (
    `Below ${border}, ${shareOf(low)} of the markets were disputed; from ${border} on, ${shareOf(high)}. ` +
    `${words} ${says} ${trendOver(buckets)}`
  );
}

/** @param {ScoreFacet["buckets"]} buckets */
function trendOver(buckets) {
  const hits = buckets.reduce((sum, { disputed }) => sum + disputed, 0);
  const others = buckets.reduce((sum, { count, disputed }) => sum + count - disputed, 0);
  if (Math.min(hits, others) < fewest) return "For a trend there are too few disputes.";
  const { z, p } = trend(buckets.map(({ count, disputed }) => ({ hits: disputed, n: count })));
  const spelled = p < 0.001 ? "p < 0.001" : `p = ${Number(p.toPrecision(2))}`;
  return p < 0.05
    ? `Over all steps the share ${z < 0 ? "falls" : "rises"} as the score rises (${spelled}).`
    : `Over all steps there is no clear trend (${spelled}).`;
}
