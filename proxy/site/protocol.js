import { bar, lineChart } from "./chart.js";
import { facts, failure, fill, html } from "./dom.js";
import { meanings } from "./meanings.js";
import { scoreboardAddress } from "./scoreboard.js";
import { change, counted, grouped, moment, signed, spoken, tier } from "./words.js";

/**
 * @import { ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts"
 * @import { ProtocolScore } from "../../schemas/records.ts"
 * @import { Site } from "./app.js"
 * @import { View } from "./router.js"
 */

/**
 * One protocol: its record, and with a key its history and the changes of its dimensions.
 * @param {Site} site
 * @param {string} slug
 * @returns {View}
 */
export function openProtocol(site, slug) {
  const { api } = site;
  const ending = new AbortController();
  const { signal } = ending;
  const place = html("div", { "aria-busy": "true" }, html("p", { class: "quiet" }, "Loading the score…"));
  const element = html(
    "article",
    {},
    html("p", { class: "path" }, html("a", { href: scoreboardAddress() }, "All scores")),
    html("h1", {}, slug),
    place,
  );
  load();
  return { title: slug, element, close: () => ending.abort() };

  async function load() {
    try {
      const record = await api.score(slug, signal);
      const history = html("section", { "aria-labelledby": "history" });
      const dimensions = html("section", { "aria-labelledby": "dimensions" });
      fill(dimensions, dimensionTable(record));
      fill(place, summary(record), dimensions, history, about(record));
      if (api.keyed) await Promise.all([loadHistory(history), loadMoves(record, dimensions)]);
      else if (api.live) fill(history, ...invitation());
    } catch (error) {
      if (!signal.aborted) fill(place, failure(error));
    }
    place.removeAttribute("aria-busy");
  }

  /** @param {HTMLElement} section */
  async function loadHistory(section) {
    try {
      const history = await api.history(slug, signal);
      drawHistory(section, history, signal);
    } catch (error) {
      if (!signal.aborted) fill(section, html("h2", { id: "history" }, "Seven days"), failure(error));
    }
  }

  /**
   * @param {ProtocolScore} record
   * @param {HTMLElement} section
   */
  async function loadMoves(record, section) {
    try {
      fill(section, dimensionTable(record, (await api.dimensions(slug, signal)).dimensions));
    } catch (error) {
      if (!signal.aborted) section.append(failure(error));
    }
  }

  function invitation() {
    return [
      html("h2", { id: "history" }, "Seven days"),
      html(
        "p",
        {},
        "With a Developer or Aegis key this page shows the history of the last seven days, how each dimension changed, and its percentile among all protocols. ",
        html(
          "button",
          { type: "button", class: "plain", onclick: () => site.askForKey() },
          "Enter an API key",
        ),
      ),
    ];
  }
}

/** @param {ProtocolScore} record */
function summary({ bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt }) {
  return html(
    "div",
    { class: `summary tier-${forgeScaleNum}` },
    html(
      "div",
      { class: "headline" },
      html(
        "p",
        { class: "bri" },
        html("span", { class: "unseen" }, "BRI "),
        html("b", { class: "big" }, bri),
        html("span", { class: "of" }, "of 1,000"),
      ),
      bar(bri, 1000),
      html("p", { class: "quiet" }, meanings.bri.meaning),
    ),
    facts([
      ["Forge Scale", tier(forgeScale, forgeScaleNum), meanings.tier.meaning],
      ["Confidence", confidence, meanings.confidence.meaning],
      ["Change", change(delta), meanings.delta.meaning],
      ["Updated", moment(updatedAt)],
    ]),
  );
}

/**
 * @param {ProtocolScore} record
 * @param {ScoreDimensions["dimensions"]} [moves]
 */
function dimensionTable({ dimensions }, moves) {
  const moved = new Map(moves?.map((move) => [`${move.key}`, move]));
  const cells = (/** @type {string} */ key) => {
    const move = moved.get(key);
    return (
      move && [
        html("td", { class: "number" }, change(move.change7d)),
        html("td", { class: "number" }, move.percentile),
      ]
    );
  };
  return [
    html("h2", { id: "dimensions" }, "Twelve dimensions"),
    html(
      "table",
      { class: "dimensions safety" },
      html("caption", { class: "quiet" }, meanings.protocolDimension.meaning),
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          html("th", { scope: "col" }, "Dimension"),
          html("th", { scope: "col", class: "number" }, "Score"),
          moves && [
            html("th", { scope: "col", class: "number" }, "7 days"),
            html("th", { scope: "col", class: "number" }, "Percentile"),
          ],
        ),
      ),
      html(
        "tbody",
        {},
        Object.entries(dimensions).map(([key, score]) =>
          html(
            "tr",
            {},
            html("th", { scope: "row" }, spoken(key)),
            html(
              "td",
              { class: "number" },
              html("span", { class: "score" }, bar(score, 100), html("b", {}, score)),
            ),
            cells(key),
          ),
        ),
      ),
    ),
  ];
}

/**
 * @param {HTMLElement} section
 * @param {ScoreHistory} history
 * @param {AbortSignal} signal
 */
function drawHistory(section, { points }, signal) {
  const frame = html("div", { class: "frame" });
  const series = points.map(({ updatedAt, bri }) => ({ at: updatedAt, value: bri }));
  const first = points[0];
  const last = points.at(-1);
  if (!first || !last) return;
  const name = `BRI over ${counted(points.length, "run")}, from ${first.bri} to ${last.bri}`;
  fill(
    section,
    html("h2", { id: "history" }, "Seven days"),
    html(
      "p",
      { class: "quiet" },
      `${counted(points.length, "scoring run")}; BRI went from ${first.bri} to ${last.bri} (${signed(last.bri - first.bri)}).`,
    ),
    frame,
    html(
      "details",
      {},
      html("summary", {}, "Show as a table"),
      html(
        "div",
        { class: "scrolls", tabindex: "0", role: "region", "aria-label": "History as a table" },
        html(
          "table",
          { class: "plain-table" },
          html("caption", { class: "unseen" }, "Score history, oldest first"),
          html(
            "thead",
            {},
            html(
              "tr",
              {},
              ["Time", "BRI", "Forge Scale", "Confidence", "Change"].map((title) =>
                html("th", { scope: "col" }, title),
              ),
            ),
          ),
          html(
            "tbody",
            {},
            points.map((point) =>
              html(
                "tr",
                {},
                html("th", { scope: "row" }, moment(point.updatedAt)),
                html("td", { class: "number" }, point.bri),
                html("td", {}, tier(point.forgeScale, point.forgeScaleNum)),
                html("td", { class: "number" }, point.confidence),
                html("td", { class: "number" }, change(point.delta)),
              ),
            ),
          ),
        ),
      ),
    ),
  );
  // Redrawn for every width. A scaled chart would have unreadably small text on a phone.
  const observer = new ResizeObserver(() => {
    if (frame.clientWidth > 0) fill(frame, lineChart(series, frame.clientWidth, name));
  });
  observer.observe(frame);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** @param {ProtocolScore} record */
function about({ cascade, findings, metadata, evidenceHash }) {
  return html(
    "div",
    { class: "cards" },
    card("Cascade", [
      ["Blast radius", grouped(cascade.blastRadius)],
      ["Upstream dependencies", grouped(cascade.upstreamDeps)],
    ]),
    card("Findings", [
      ["Critical", grouped(findings.critical)],
      ["High", grouped(findings.high)],
      ["Medium", grouped(findings.medium)],
    ]),
    card("Metadata", [
      ["Category", metadata.category],
      ["Chain", metadata.chain],
      ["Value locked (TVL)", metadata.tvl],
      ["Contracts", grouped(metadata.contracts)],
      ["Z factor", metadata.zFactor],
    ]),
    html(
      "section",
      { class: "card whole", "aria-labelledby": "evidence" },
      html("h2", { id: "evidence" }, "Evidence"),
      html("p", { class: "quiet" }, "Hash of the content behind this score"),
      html("code", { class: "hash" }, evidenceHash),
    ),
  );
}

/**
 * @param {string} title
 * @param {Parameters<typeof facts>[0]} rows
 */
function card(title, rows) {
  const id = title.toLowerCase();
  return html("section", { class: "card", "aria-labelledby": id }, html("h2", { id }, title), facts(rows));
}
