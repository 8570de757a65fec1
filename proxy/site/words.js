import { html, svg } from "./dom.js";

/** @import { ForgeTier } from "../../schemas/tiers.ts" */

/** Lowest to highest (INTERFACE 2.3).
 * @type {readonly ForgeTier[]} */
export const tiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"];

const numbers = new Intl.NumberFormat("en-US");

/** Formats a number with thousands separators: 12,345
 * @param {number} value */
export const grouped = (value) => numbers.format(value);

/** A number with its noun: `1 market`, `2 markets`.
 * @param {number} count
 * @param {string} one
 * @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

/** The change of a score. A mark and words show its sign, not colour alone.
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

/** Formats a number with its sign: +5, −3, 0
 * @param {number} value */
export const signed = (value) => (value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0");

/** A time element that shows `2026-02-02 08:21 UTC` and holds the full precision.
 * @param {string} iso */
export const moment = (iso) => html("time", { datetime: iso, title: iso }, minutes(iso));

/** Formats a time as `2026-02-02 08:21 UTC`.
 * @param {string} iso ISO 8601 in UTC */
export const minutes = (iso) => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;

/** A tier: its name after seven steps, of which as many are filled as the tier's number.
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

/** The seven steps of a tier as an icon.
 * @param {number} number 1..7 */
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

/** Turns a key into words: `access_control` becomes `Access control`.
 * @param {string} key */
export const spoken = (key) => `${key.charAt(0).toUpperCase()}${key.slice(1).replaceAll("_", " ")}`;
