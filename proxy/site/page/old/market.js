import { marketAddress } from "../filters.ts";
import { html } from "./dom.js";
import { moment, tier, tiers } from "./words.js";

/** @import { HistoricalMarket } from "../../../../schemas/records.ts" */

/** A list item for a market.
 * @param {HistoricalMarket} market
 * @param {string | null} asOf */
export function marketItem(
  { id, question, category, composite, tier: name, resolvedOutcome, resolvedAt, disputed, topRiskDriver },
  asOf,
) {
  return html(
    "li",
    { class: `market tier-${tiers.indexOf(name) + 1}` },
    html(
      "p",
      { class: "composite", "data-meaning": "composite" },
      html("span", { class: "unseen" }, "Composite "),
      html("b", {}, composite),
    ),
    html(
      "div",
      { class: "gist" },
      html("h3", {}, html("a", { class: "question", dir: "auto", href: marketAddress(id, asOf) }, question)),
      html(
        "p",
        { class: "tags" },
        tier(name),
        html("span", { dir: "auto" }, category),
        html("span", {}, "Resolved ", html("b", {}, html("bdi", {}, resolvedOutcome))),
        disputed && html("span", { class: "disputed" }, "Disputed"),
        topRiskDriver !== "" && html("span", { dir: "auto" }, topRiskDriver),
        moment(resolvedAt),
      ),
    ),
  );
}
