import { html, svg } from "./dom.js";

/** @import { ForgeTier } from "../../schemas/tiers.ts" */

/** Lowest to highest (INTERFACE 2.3).
 * @type {readonly ForgeTier[]} */
export const tiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"];

const numbers = new Intl.NumberFormat("en-US");

/** 12,345
 * @param {number} value */
export const grouped = (value) => numbers.format(value);

/** `one` or `many`, after the number.
 * @param {number} count
 * @param {string} one
 * @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

/** The change of a score: its sign is told by a mark and by words, never by colour alone.
 * @param {number} value */
export function change(value) {
  const [direction, mark, words] =
    value > 0 ? ["up", "▲", "up "] : value < 0 ? ["down", "▼", "down "] : ["still", "", "unchanged, "];
  return html(
    "span",
    { class: `change ${direction}` },
    html("span", { class: "mark", "aria-hidden": "true" }, mark),
    html("span", { class: "unseen" }, words),
    html("span", { class: "number" }, signed(value)),
  );
}

/** +5, −3, 0
 * @param {number} value */
export const signed = (value) => (value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0");

/** A moment as `2026-02-02 08:21 UTC`; its full precision stands in the element.
 * @param {string} iso */
export const moment = (iso) => html("time", { datetime: iso, title: iso }, minutes(iso));

/** @param {string} iso */
export const minutes = (iso) => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;

/** A tier as seven steps, as many of them filled as it is high, and its name.
 * @param {string} name
 * @param {number} number 1..7 */
export function tier(name, number) {
  return html(
    "span",
    { class: `tier tier-${number}` },
    steps(number),
    html("span", { class: "tier-name" }, name),
  );
}

/** @param {number} number 1..7 */
export function steps(number) {
  return svg(
    "svg",
    { class: "steps", viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" },
    tiers.map((_, place) =>
      svg("rect", {
        class: place < number ? "on" : "off",
        x: place * 5,
        y: 8 - place,
        width: 4,
        height: 4 + place,
        rx: 0.75,
      }),
    ),
  );
}

/** `access_control` as words: Access control
 * @param {string} key */
export const spoken = (key) => `${key.charAt(0).toUpperCase()}${key.slice(1).replaceAll("_", " ")}`;
