import { nameOf } from "../../../../schemas/names.ts";
import { bar } from "./chart.js";
import { failure, fill, html } from "./dom.js";
import { dimensionLink, term } from "./explain.js";
import { takeAlong } from "./take.js";
import { change, grouped, moment, stepOf, tier } from "./words.js";

/**
 * @import { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts"
 * @import { Site } from "./dom.js"
 * @import { Child } from "./dom.js"
 * @import { View } from "./dom.js"
 */

/** How many protocols stand side by side at most. */
const most = 4;

/** @param {readonly string[]} slugs */
export const compareAddress = (slugs) => `#/compare/${slugs.join()}`;

/**
 * The address that compares a protocol with its nearest by BRI, if there is one of its own category with that.
 * @param {ScoreListEntry} entry
 * @param {readonly ScoreListEntry[]} scores
 */
export function peerAddress(entry, scores) {
  const others = scores.filter(({ slug }) => slug !== entry.slug);
  const kin = others.filter(({ category }) => category === entry.category);
  const distance = (/** @type {ScoreListEntry} */ { bri }) => Math.abs(bri - entry.bri);
  const peer = (kin.length > 0 ? kin : others).toSorted((a, b) => distance(a) - distance(b))[0];
  return compareAddress(peer ? [entry.slug, peer.slug] : [entry.slug]);
}

/**
 * Up to four protocols side by side.
 * @param {Site} site
 * @param {readonly string[]} wanted
 * @returns {View}
 */
export function openCompare({ api }, wanted) {
  const ending = new AbortController();
  const { signal } = ending;
  const panel = html("div", { "aria-busy": "true" }, html("p", { class: "quiet" }, "Loading the scores…"));
  const element = html("article", {}, html("h1", {}, "Side by side"), panel);
  load();
  return { title: ["Side by side", ...wanted.map(nameOf)].join(" · "), element, close: () => ending.abort() };

  async function load() {
    try {
      const { scores } = await api.scores.scores({ signal });
      const there = wanted.filter((slug) => scores.some((entry) => entry.slug === slug));
      const known = there.slice(0, most);
      const records = await Promise.all(known.map((slug) => api.scores.score(slug, { signal })));
      const missing = wanted.filter((slug) => !there.includes(slug));
      const left = there.slice(most).map(nameOf);
      fill(
        panel,
        missing.length > 0 && html("p", {}, `No protocol is scored under the name ${missing.join(" or ")}.`),
        left.length > 0 && html("p", {}, `At most ${most} fit side by side, without ${left.join(", ")}.`),
        known.length > 1 && html("p", {}, ...differences(records)),
        known.length < most && picker(known, scores),
        known.length > 0 && table(records, scores),
        known.length > 0 &&
          takeAlong(api, {
            name: "scores",
            title: `Risk scores of ${known.map(nameOf).join(", ")}`,
            asked: () => known.map((slug) => ({ path: `scores/${slug}`, name: slug })),
          }),
      );
    } catch (error) {
      if (!signal.aborted) fill(panel, failure(error, load));
    }
    panel.removeAttribute("aria-busy");
  }
}

/**
 * Where the protocols differ most.
 * @param {readonly ProtocolScore[]} records
 */
function differences(records) {
  const spreads = /** @type {(keyof ProtocolScore["dimensions"])[]} */ (
    Object.keys(records[0]?.dimensions ?? {})
  )
    .map((key) => {
      const scores = records.map(({ dimensions }) => dimensions[key]);
      return { key, low: Math.min(...scores), high: Math.max(...scores) };
    })
    .filter(({ low, high }) => high > low)
    .toSorted((a, b) => b.high - b.low - (a.high - a.low))
    .slice(0, 3);
  if (spreads.length === 0) return ["All twelve dimensions are equal."];
  return [
    "They differ most in ",
    ...spreads.flatMap(({ key, low, high }, index) => [
      index > 0 ? ", " : "",
      dimensionLink(key),
      ` (${low} to ${high})`,
    ]),
    ".",
  ];
}

/**
 * @param {readonly string[]} slugs
 * @param {readonly ScoreListEntry[]} scores
 */
function picker(slugs, scores) {
  const others = scores.map(({ slug }) => slug).filter((slug) => !slugs.includes(slug));
  const choice = html(
    "select",
    { id: "add" },
    others.toSorted().map((slug) => html("option", { value: slug }, nameOf(slug))),
  );
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    location.hash = compareAddress([...slugs, choice.value]);
  };
  return (
    others.length > 0 &&
    html(
      "form",
      { class: "picker", onsubmit: add },
      html("label", { for: "add" }, slugs.length > 0 ? "Compare with" : "Protocol"),
      choice,
      html("button", { type: "submit" }, "Add"),
    )
  );
}

/**
 * @param {readonly ProtocolScore[]} records
 * @param {readonly ScoreListEntry[]} scores
 */
function table(records, scores) {
  const slugs = records.map(({ slug }) => slug);
  const row = (
    /** @type {Child} */ title,
    /** @type {(record: ProtocolScore) => Child} */ cell,
    /** @type {string | undefined} */ kind = undefined,
  ) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, title),
      records.map((record) => html("td", { class: kind }, cell(record))),
    );
  const scored = (/** @type {number} */ value, /** @type {number} */ max, /** @type {number} */ step) =>
    html("span", { class: `score tier-${step}` }, bar(value, max), html("b", {}, value));
  const part = (/** @type {string} */ title, /** @type {Child[]} */ rows) =>
    html(
      "tbody",
      {},
      html("tr", {}, html("th", { scope: "rowgroup", colspan: records.length + 1, class: "part" }, title)),
      rows,
    );
  const place = (/** @type {ProtocolScore} */ { bri }) =>
    `${grouped(1 + scores.filter((entry) => entry.bri > bri).length)} of ${grouped(scores.length)}`;
  const keys = /** @type {(keyof ProtocolScore["dimensions"])[]} */ (
    Object.keys(records[0]?.dimensions ?? {})
  );
  return html(
    "div",
    { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Protocols side by side" },
    html(
      "table",
      { class: "compared-protocols" },
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          html("td"),
          slugs.map((slug) =>
            html(
              "th",
              { scope: "col" },
              html("a", { href: `#/protocols/${slug}` }, nameOf(slug)),
              " ",
              html(
                "a",
                {
                  class: "away",
                  href: compareAddress(slugs.filter((other) => other !== slug)),
                  "aria-label": `Take ${nameOf(slug)} away`,
                },
                "×",
              ),
            ),
          ),
        ),
      ),
      part("Score", [
        row(term("BRI", "bri"), ({ bri, forgeScaleNum }) => scored(bri, 1000, forgeScaleNum), "number"),
        row("Place by BRI", place),
        row(term("Tier", "tier"), ({ forgeScale, forgeScaleNum }) => tier(forgeScale, forgeScaleNum)),
        row(term("Confidence", "confidence"), ({ confidence }) => confidence, "number"),
        row(term("Change", "delta"), ({ delta }) => change(delta), "number"),
        row("Updated", ({ updatedAt }) => moment(updatedAt)),
      ]),
      part(
        "Twelve dimensions",
        keys.map((key) =>
          row(
            dimensionLink(key),
            ({ dimensions }) => scored(dimensions[key], 100, stepOf(dimensions[key] / 100)),
            "number",
          ),
        ),
      ),
      part("Findings, reach and size", [
        row(term("Critical findings", "findings"), ({ findings }) => grouped(findings.critical), "number"),
        row(term("High", "findings"), ({ findings }) => grouped(findings.high), "number"),
        row(term("Medium", "findings"), ({ findings }) => grouped(findings.medium), "number"),
        row(term("Blast radius", "cascade"), ({ cascade }) => grouped(cascade.blastRadius), "number"),
        row(
          term("Upstream dependencies", "cascade"),
          ({ cascade }) => grouped(cascade.upstreamDeps),
          "number",
        ),
        row("Category", ({ metadata }) => html("bdi", {}, metadata.category)),
        row("Chain", ({ metadata }) => html("bdi", {}, metadata.chain)),
        row(term("Value locked (TVL)", "tvl"), ({ metadata }) => metadata.tvl, "number"),
        row(term("Contracts", "contracts"), ({ metadata }) => grouped(metadata.contracts), "number"),
        row(term("Z factor", "zFactor"), ({ metadata }) => metadata.zFactor, "number"),
      ]),
    ),
  );
}
