import { minutes } from "../../../../schemas/names.ts";
import { html } from "./dom.js";

export { minutes, spoken } from "../../../../schemas/names.ts";

/** @import { ForgeTier } from "../../../../schemas/scales.ts" */

/** Lowest to highest (INTERFACE 2.3).
 * @type {readonly ForgeTier[]} */
export const tiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"];

const numbers = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

/** Formats a number with thousands separators: 12,345
 * @param {number} value */
export const grouped = (value) => numbers.format(value);

/** Formats a number in few characters: 12.3K
 * @param {number} value */
export const compact = (value) => short.format(value);

/** Formats a number of bytes: 2.77 MB
 * @param {number} bytes */
export const size = (bytes) =>
  bytes < 1e6
    ? `${numbers.format(Math.ceil(bytes / 1000))} kB`
    : `${Number((bytes / 1e6).toPrecision(3))} MB`;

/** Formats a share of 0 to 1: 2.6 %
 * @param {number} share
 * @param {number} [digits] behind the point */
export const percent = (share, digits = share < 0.1 ? 1 : 0) => `${Number((100 * share).toFixed(digits))} %`;

/** A number with its noun: `1 market`, `2 markets`.
 * @param {number} count
 * @param {string} one
 * @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

/** A time element that shows `2026-02-02 08:21 UTC`, and holds the full precision for programs.
 * @param {string} iso */
export const moment = (iso) => html("time", { datetime: iso }, minutes(iso));

/** A tier: its name after a mark of seven steps, of which as many are filled as the tier's number.
 * @param {string} name
 * @param {number} [number] 1..7 */
export function tier(name, number = tiers.indexOf(/** @type {ForgeTier} */ (name)) + 1) {
  return html(
    "span",
    { class: `tier tier-${number}` },
    html("span", { class: "steps", "aria-hidden": "true" }),
    html("span", { class: "tier-name" }, name),
  );
}

/** The step of the scale from 1 to 7 for a score that has no tier.
 * @param {number} share of the highest score, from 0 to 1 */
export const stepOf = (share) => Math.min(tiers.length, 1 + Math.floor(share * tiers.length));
