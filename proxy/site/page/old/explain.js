import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { fill, html } from "./dom.js";
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

/**
 * Shows the meaning of whatever is tapped, pointed at or focused, if it has `data-meaning`. Called once for the page.
 * Numbers in tables have that too: a tap opens it there, and the keyboard finds it at the column's heading.
 */
export function startExplaining() {
  const bubble = html("div", { id: "meaning", role: "tooltip", popover: "manual" });
  // It stays when the view goes, and is within a landmark.
  document.querySelector(".top > div")?.append(bubble);
  /** @type {Element | undefined} */
  let shown;

  /** @param {Event} event */
  const subject = ({ target }) => (target instanceof Element ? target.closest("[data-meaning]") : null);

  /** @param {Element} element */
  function show(element) {
    hide();
    const about = /** @type {Meaning} */ (element.getAttribute("data-meaning"));
    fill(bubble, meanings[about].meaning);
    shown = element;
    element.setAttribute("aria-describedby", bubble.id);
    bubble.showPopover();
    const { left, top, bottom } = element.getBoundingClientRect();
    const { width, height } = bubble.getBoundingClientRect();
    const below = bottom + 8 + height < innerHeight;
    // Set through the object model, which the page's policy allows: a style attribute it does not.
    bubble.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
    bubble.style.top = `${below ? bottom + 8 : Math.max(8, top - height - 8)}px`;
  }

  function hide() {
    shown?.removeAttribute("aria-describedby");
    shown = undefined;
    bubble.hidePopover();
  }

  for (const how of ["focusin", "click", "mouseover"]) {
    document.addEventListener(how, (event) => {
      const element = subject(event);
      // The pointer opens terms only: bubbles that follow it through a table would be in the way.
      if (how === "mouseover" && !element?.matches("button, a")) return;
      if (element && element !== shown) show(element);
      else if (!element && how === "click") hide();
    });
  }
  document.addEventListener("focusout", hide);
  document.addEventListener("mouseout", (event) => {
    if (subject(event) === shown && shown !== document.activeElement) hide();
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") hide();
  });
  // It would stay where its term no longer is.
  document.addEventListener("scroll", hide, { passive: true });
}
