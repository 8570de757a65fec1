import { bar } from "./chart.js";
import { facts, fill, html, outsideLink } from "./dom.js";
import { meanings } from "./meanings.js";
import { counted, moment, spoken, tier, tiers } from "./words.js";

/**
 * @import { HistoricalMarket, MarketDimension } from "../../schemas/records.ts"
 * @import { Child } from "./dom.js"
 */

/** A list item for a market. Its details are created when the reader opens them.
 * @param {HistoricalMarket} market */
export function marketItem(market) {
  const { id, question, category, composite, resolvedOutcome, resolvedAt, disputed } = market;
  const number = tiers.indexOf(market.tier) + 1;
  const details = html("div", { class: "details", id: `details-${id}`, hidden: true });
  const opener = html(
    "button",
    {
      type: "button",
      class: "question",
      "aria-expanded": "false",
      "aria-controls": details.id,
      onclick: toggle,
    },
    question,
  );
  function toggle() {
    details.hidden = !details.hidden;
    opener.setAttribute("aria-expanded", `${!details.hidden}`);
    if (!details.hasChildNodes()) fill(details, ...detailsOf(market));
  }
  return html(
    "li",
    { class: `market tier-${number}` },
    html(
      "p",
      { class: "composite" },
      html("span", { class: "unseen" }, "Composite "),
      html("b", {}, composite),
    ),
    html(
      "div",
      { class: "gist" },
      html("h3", {}, opener),
      html(
        "p",
        { class: "tags" },
        tier(market.tier, number),
        html("span", {}, category),
        html("span", {}, "Resolved ", html("b", {}, resolvedOutcome)),
        disputed && html("span", { class: "disputed" }, "Disputed"),
        moment(resolvedAt),
      ),
    ),
    details,
  );
}

/** @param {HistoricalMarket} market */
function detailsOf(market) {
  return [
    facts([
      ["Main risk driver", market.topRiskDriver, meanings.topRiskDriver.meaning],
      ["Flagged items", market.flaggedCount],
      ["Resolution source", outsideLink(market.resolutionSource)],
      ["Formula", market.formulaVersion],
      ["Weights", market.weightVersion],
      ["Market", html("span", { class: "broken" }, market.slug)],
      ["Identifier", html("code", {}, market.id)],
    ]),
    html("p", { class: "quiet" }, `Dimensions. ${meanings.marketDimension.meaning}`),
    html("ul", { class: "signals" }, market.dimensions.map(dimensionItem)),
  ];
}

/** @param {MarketDimension} dimension */
function dimensionItem({ name, score, weight, description, evidence, references, computation }) {
  const { baseline, raises, lowers } = computation;
  return html(
    "li",
    {},
    html("h4", {}, name),
    html(
      "p",
      { class: "score" },
      bar(score, 100),
      html("span", {}, "Risk ", html("b", {}, score)),
      html("span", { class: "quiet" }, `weight ${weight}`),
    ),
    html("p", {}, description),
    evidence.length > 0 && [
      html("h5", {}, counted(evidence.length, "piece", "pieces"), " of evidence"),
      html(
        "ul",
        {},
        evidence.map(({ type, label, pattern, reference }) =>
          html(
            "li",
            {},
            label,
            html("span", { class: "quiet" }, ` · ${spoken(type)} · ${spoken(pattern)} · `),
            outsideLink(reference.url, reference.label),
            html("span", { class: "quiet" }, ` (${reference.kind})`),
          ),
        ),
      ),
    ],
    references.length > 0 && [html("h5", {}, "References"), anyList(references)],
    html("h5", {}, "Computation"),
    html(
      "p",
      { class: "quiet" },
      `Baseline ${baseline}`,
      raises.length > 0 && [" · raised by ", ...listed(raises)],
      lowers.length > 0 && [" · lowered by ", ...listed(lowers)],
    ),
  );
}

/** @param {readonly unknown[]} values */
const anyList = (values) =>
  html(
    "ul",
    {},
    values.map((value) => html("li", {}, ...anything(value))),
  );

/** @param {readonly unknown[]} values */
const listed = (values) => values.flatMap((value, place) => [place > 0 ? "; " : "", ...anything(value)]);

/**
 * Shows any JSON value as text, with web addresses as links.
 * @param {unknown} value
 * @returns {Child[]}
 */
function anything(value) {
  if (typeof value === "string") return [/^https?:\/\//i.test(value) ? outsideLink(value) : value];
  if (Array.isArray(value)) return listed(value);
  if (typeof value !== "object" || value === null) return [`${value}`];
  return Object.entries(value).flatMap(([key, member], place) => [
    place > 0 ? ", " : "",
    `${key}: `,
    ...anything(member),
  ]);
}
