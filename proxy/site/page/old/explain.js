import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { html } from "./dom.js";
import { spoken } from "./words.js";

/**
 * @import { Child } from "./dom.js"
 * @import { View } from "./dom.js"
 */
/** @typedef {keyof typeof meanings} Meaning */

/**
 * A term whose meaning opens when it is tapped or gets the focus.
 * @param {Child} text
 * @param {Meaning} about
 */
export const term = (text, about) =>
  html("button", { type: "button", class: "term", "data-meaning": about }, text);

/**
 * The name of a dimension, as a link to what it looks at.
 * @param {string} key
 * @param {string} [name]
 */
export const dimensionLink = (key, name = spoken(key)) =>
  html(
    "a",
    {
      class: "term",
      href: `#/meanings/${key}`,
      "data-meaning": key in dimensionMeanings.market ? "marketDimension" : "protocolDimension",
    },
    name,
  );

/**
 * The page that says what each number and dimension means, and how to read it.
 * @param {string} [key] of the dimension that was asked for
 * @returns {View}
 */
export function openMeanings(key) {
  const about = (/** @type {Meaning} */ name, /** @type {string} */ title) =>
    html("div", { class: "meaning" }, html("dt", {}, title), html("dd", {}, meanings[name].meaning));
  const all = (/** @type {Record<string, string>} */ those) =>
    html(
      "dl",
      { class: "meanings" },
      Object.entries(those).map(([each, words]) =>
        html(
          "div",
          { class: "meaning", "aria-current": each === key ? "true" : undefined },
          html("dt", {}, spoken(each)),
          html("dd", {}, words),
        ),
      ),
    );
  const element = html(
    "article",
    {},
    html("h1", {}, "What the numbers mean"),
    html(
      "p",
      { class: "quiet" },
      "Beside each dimension stands what it is named for. What it measures is the operator’s formula, and the " +
        "operator’s to state.",
    ),
    html("h2", {}, "Score of a protocol"),
    html(
      "dl",
      { class: "meanings" },
      about("bri", "BRI"),
      about("tier", "Tier"),
      about("confidence", "Confidence"),
      about("delta", "Change"),
      about("cascade", "Cascade"),
      about("findings", "Findings"),
    ),
    html("h2", {}, "Twelve dimensions of a protocol"),
    html("p", {}, meanings.protocolDimension.meaning),
    all(dimensionMeanings.protocol),
    html("h2", {}, "Score of a market"),
    html(
      "dl",
      { class: "meanings" },
      about("composite", "Composite"),
      about("weight", "Weight"),
      about("computation", "Computation"),
      about("disputed", "Disputed"),
    ),
    html("h2", {}, "Six risk signals of a market"),
    html("p", {}, meanings.marketDimension.meaning),
    all(dimensionMeanings.market),
    html("h2", { "aria-current": key === "requests" ? "true" : undefined }, "What takes a request"),
    html(
      "p",
      {},
      "A plan has so many requests for each day in UTC. What the browser has, and is still current, takes none.",
    ),
    html(
      "dl",
      { class: "meanings" },
      [
        [
          "Scores",
          "One for the list, which Ctrl+K asks for too, and one for each protocol. With a key, two more for a protocol’s seven days, and one for a curve in the list.",
        ],
        ["As it was", "One for the list of earlier states."],
        [
          "Archive",
          "One for each page of markets. One for the counts beside the choices, up to one more for each filter, and one for each formula version compared. Recomputed here, counts take none.",
        ],
        ["Market", "One."],
        ["Buttons", "What else takes requests says so beside its button."],
      ].map(([title, words]) =>
        html("div", { class: "meaning" }, html("dt", {}, title), html("dd", {}, words)),
      ),
    ),
  );
  // The router scrolls to the top when it has shown the view.
  setTimeout(() => element.querySelector("[aria-current]")?.scrollIntoView({ block: "center" }));
  return { title: "What the numbers mean", element, close: () => {} };
}
