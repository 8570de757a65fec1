import { meanings } from "../../../../schemas/meanings.ts";
import { nameOf } from "../../../../schemas/names.ts";
import { asItWas } from "./asof.js";
import { bar, columnChart, diverging } from "./chart.js";
import { promise } from "./closed.js";
import { peerAddress } from "./compare.js";
import { curve } from "./curve.js";
import { copyable, facts, failure, fill, html, svg } from "./dom.js";
import { dimensionLink, term } from "./explain.js";
import { distribution } from "./scoreboard.js";
import { frameOf, takeAlong } from "./take.js";
import { tierLog, whyChanged } from "./why.js";
import { ago, change, counted, grouped, moment, signed, stepOf, tier } from "./words.js";

/**
 * @import { ScoreDimensions, ScoreHistory, ScoreList } from "../../../../schemas/envelopes.ts"
 * @import { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts"
 * @import { Api } from "../api.ts"
 * @import { Site } from "./dom.js"
 * @import { View } from "./dom.js"
 */

/**
 * One protocol: its record and its place among the others, and with a key its history and the changes of its
 * dimensions.
 * @param {Site} site
 * @param {string} slug
 * @param {string | null} asOf the snapshot whose state is shown, by its id or a time; the present one if null
 * @returns {View}
 */
export function openProtocol(site, slug, asOf) {
  const { api } = site;
  // Only the service has what was before.
  const scores = asOf === null ? api.scores : api.service;
  const ending = new AbortController();
  const { signal } = ending;
  const how = { signal, ...(asOf !== null && { asOf }) };
  const go = (/** @type {string | null} */ state) => {
    location.hash = `#/protocols/${slug}${state === null ? "" : `?asOf=${state}`}`;
  };
  const panel = html("div", { "aria-busy": "true" }, html("p", { class: "quiet" }, "Loading the score…"));
  const element = html(
    "article",
    {},
    html("p", { class: "path" }, html("a", { href: site.store.state.last.scores }, "All scores")),
    html("h1", {}, nameOf(slug)),
    api.keyed && asItWas(api, asOf, go, signal),
    panel,
  );
  /** Asked for once for all parts of the page.
   * @type {Promise<ScoreList> | undefined} */
  let list;
  if (asOf === null || api.keyed) load();
  else {
    const closed = api.live
      ? "an earlier state, which needs a key of the Developer or Aegis plan."
      : "an earlier state, which needs the service.";
    fill(
      panel,
      promise(site, `This address asks for ${closed}`),
      html("p", {}, html("a", { href: `#/protocols/${slug}` }, "Show the present state")),
    );
    panel.removeAttribute("aria-busy");
  }
  return { title: nameOf(slug), element, close: () => ending.abort() };

  async function load() {
    try {
      const record = await scores.score(slug, how);
      const among = html("div", { class: "among" });
      const history = html("section", { "aria-labelledby": "history" });
      const dimensions = html("section", { "aria-labelledby": "dimensions" });
      fill(dimensions, dimensionTable(record));
      fill(
        panel,
        summary(record, among),
        dimensions,
        history,
        about(record),
        // It has what is published at present.
        asOf === null && (api.published ?? api.scores === api.service) && tierLog(api, slug, signal),
        // One of an earlier state would pass for the present one.
        asOf === null && badge(record, api.published),
      );
      const parts = [loadAmong(record, among)];
      if (api.keyed) parts.push(loadHistory(history), loadMoves(record, dimensions));
      else if (api.live)
        fill(
          history,
          html("h2", { id: "history" }, "Seven days"),
          promise(
            site,
            "With a Developer or Aegis key: the curve of seven days, how each dimension moved in them, and its " +
              "place among all protocols; and the page as it was in earlier snapshots.",
          ),
        );
      await Promise.all(parts);
    } catch (error) {
      if (!signal.aborted) fill(panel, failure(error, load));
    }
    panel.removeAttribute("aria-busy");
  }

  async function allScores() {
    list ??= scores.scores(how);
    try {
      return (await list).scores;
    } catch (error) {
      list = undefined;
      throw error;
    }
  }

  /**
   * @param {ProtocolScore} record
   * @param {HTMLElement} frame
   */
  async function loadAmong(record, frame) {
    try {
      fill(frame, ...amongAll(record, await allScores(), asOf === null));
    } catch (error) {
      if (!signal.aborted)
        fill(
          frame,
          failure(error, () => loadAmong(record, frame)),
        );
    }
  }

  /** @param {HTMLElement} section */
  async function loadHistory(section) {
    try {
      const [history, all] = await Promise.all([api.service.history(slug, how), allScores()]);
      drawHistory(section, history, all, signal);
      section.append(takeHistory(api, history, asOf, section));
    } catch (error) {
      if (!signal.aborted)
        fill(
          section,
          html("h2", { id: "history" }, "Seven days"),
          failure(error, () => loadHistory(section)),
        );
    }
  }

  /**
   * @param {ProtocolScore} record
   * @param {HTMLElement} section
   */
  async function loadMoves(record, section) {
    try {
      const { dimensions } = await api.service.dimensions(slug, how);
      fill(section, dimensionTable(record, dimensions), whyChanged(api, record, asOf, dimensions, signal));
    } catch (error) {
      if (!signal.aborted)
        fill(
          section,
          dimensionTable(record),
          failure(error, () => loadMoves(record, section)),
        );
    }
  }
}

/**
 * @param {ProtocolScore} record
 * @param {HTMLElement} among
 */
function summary({ bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, metadata }, among) {
  return html(
    "div",
    { class: `summary tier-${forgeScaleNum}` },
    html(
      "div",
      { class: "headline" },
      html(
        "p",
        { class: "quiet" },
        html("bdi", {}, metadata.category),
        " · ",
        html("bdi", {}, metadata.chain),
        " · ",
        html("bdi", {}, metadata.tvl),
        " locked",
      ),
      html(
        "p",
        { class: "bri" },
        html("b", { class: "big" }, bri),
        html("span", { class: "of" }, term("BRI", "bri"), " of 1,000"),
      ),
      bar(bri, 1000),
      among,
    ),
    facts([
      [term("Tier", "tier"), tier(forgeScale, forgeScaleNum)],
      [
        term("Change", "delta"),
        html(
          "span",
          { class: "moved" },
          `${bri - delta} → ${bri} `,
          diverging(delta, Math.max(20, Math.abs(delta))),
          change(delta),
        ),
      ],
      [term("Confidence", "confidence"), `${confidence} of 100`],
      ["Updated", html("span", {}, moment(updatedAt), `, ${ago(updatedAt, Date.now())}`)],
    ]),
  );
}

/**
 * @param {ProtocolScore} record
 * @param {readonly ScoreListEntry[]} scores
 * @param {boolean} present
 */
function amongAll({ slug, bri }, scores, present) {
  const own = Math.min(39, Math.floor(bri / 25));
  const above = scores.filter((each) => each.bri > bri).length;
  const entry = scores.find((each) => each.slug === slug);
  const kin = entry?.category;
  const kind = scores.filter(({ category }) => category !== undefined && category === kin);
  const aboveInKind = kind.filter((each) => each.bri > bri).length;
  return [
    html(
      "p",
      {},
      "Place ",
      html("b", {}, above + 1),
      ` of ${grouped(scores.length)}`,
      kind.length > 1 && [
        ", ",
        html("b", {}, aboveInKind + 1),
        ` of ${grouped(kind.length)} in `,
        html("bdi", {}, kin),
      ],
      present && entry && [" · ", html("a", { href: peerAddress(entry, scores) }, "Compare side by side")],
    ),
    columnChart(distribution(scores), {
      label: `The BRI of all protocols. This one is number ${above + 1} of ${scores.length}.`,
      axis: ["0", "BRI 500", "1,000"],
      hot: (column) => column === own,
    }),
  ];
}

/**
 * @param {ProtocolScore} record
 * @param {ScoreDimensions["dimensions"]} [moves]
 */
function dimensionTable({ dimensions }, moves) {
  const moved = new Map(moves?.map((move) => [`${move.key}`, move]));
  const most = Math.max(5, ...(moves ?? []).map(({ change7d }) => Math.abs(change7d)));
  const cells = (/** @type {string} */ key) => {
    const move = moved.get(key);
    return (
      move && [
        html(
          "td",
          { class: "number", "data-meaning": "change7d" },
          html("span", { class: "moved" }, diverging(move.change7d, most), change(move.change7d)),
        ),
        html(
          "td",
          { class: "number", "data-meaning": "percentile" },
          html("span", { class: "score" }, bar(0, 100, move.percentile), html("b", {}, move.percentile)),
        ),
      ]
    );
  };
  return [
    html("h2", { id: "dimensions" }, "Twelve dimensions"),
    html(
      "table",
      { class: "dimensions" },
      html("caption", { class: "quiet" }, meanings.protocolDimension.meaning),
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          html("th", { scope: "col" }, "Dimension"),
          html("th", { scope: "col", class: "number" }, term("Score", "protocolDimension")),
          moves && [
            html("th", { scope: "col", class: "number" }, term("7 days", "change7d")),
            html("th", { scope: "col", class: "number" }, term("Percentile", "percentile")),
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
            html("th", { scope: "row" }, dimensionLink(key)),
            html(
              "td",
              { class: "number", "data-meaning": "protocolDimension" },
              html(
                "span",
                { class: `score tier-${stepOf(score / 100)}` },
                bar(score, 100),
                html("b", {}, score),
              ),
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
 * @param {readonly ScoreListEntry[]} scores
 * @param {AbortSignal} signal
 */
function drawHistory(section, { points }, scores, signal) {
  const first = points[0];
  const [before, last] = points.length > 1 ? points.slice(-2) : [undefined, first];
  if (!first || !last) return;
  const name = `BRI over ${counted(points.length, "run")}, from ${first.bri} to ${last.bri}`;
  const tierMove =
    before && before.forgeScale !== last.forgeScale
      ? `The last run moved it from ${before.forgeScale} to ${last.forgeScale}.`
      : `The last run left it in ${last.forgeScale}.`;
  const confidenceMove = before && last.confidence - before.confidence;
  fill(
    section,
    html("h2", { id: "history" }, "Seven days"),
    html(
      "p",
      { class: "quiet" },
      before
        ? `${counted(points.length, "scoring run")}; BRI went from ${first.bri} to ${last.bri} ` +
            `(${signed(last.bri - first.bri)}). `
        : "One scoring run.",
      before &&
        `${tierMove} Its confidence ${confidenceMove ? `moved by ${signed(confidenceMove)}` : "stayed"}.`,
    ),
    ...curve(points, scores, name, signal),
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
              ["Time", "BRI", "Tier", "Confidence", "Change"].map((title) =>
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
}

/**
 * @param {Api} api
 * @param {ScoreHistory} history
 * @param {string | null} asOf
 * @param {HTMLElement} section
 */
const takeHistory = (api, { slug }, asOf, section) =>
  takeAlong(api, {
    name: `${slug}-history`,
    title: `BRI of ${nameOf(slug)} over seven days`,
    frame: () => section.querySelector(".frame"),
    asked: () => [
      { path: `scores/${slug}/history`, filters: new URLSearchParams(asOf === null ? {} : { asOf }) },
    ],
  });

/** @param {ProtocolScore} record */
function about({ slug, cascade, findings, metadata, evidenceHash }) {
  return html(
    "div",
    { class: "cards" },
    card("Cascade", [
      [term("Blast radius", "cascade"), grouped(cascade.blastRadius)],
      [term("Upstream dependencies", "cascade"), grouped(cascade.upstreamDeps)],
    ]),
    card("Findings", [
      [term("Critical", "findings"), grouped(findings.critical)],
      [term("High", "findings"), grouped(findings.high)],
      [term("Medium", "findings"), grouped(findings.medium)],
    ]),
    card("About", [
      ["Name in addresses", html("code", {}, slug)],
      ["Category", html("bdi", {}, metadata.category)],
      ["Chain", html("bdi", {}, metadata.chain)],
      [term("Value locked (TVL)", "tvl"), metadata.tvl],
      [term("Contracts", "contracts"), grouped(metadata.contracts)],
      [term("Z factor", "zFactor"), metadata.zFactor],
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

/** Of the tiers, as in published badges: behind white text. */
const badgeColours = ["#5f6468", "#4a6a73", "#2f6f74", "#1a6d6f", "#0f6669", "#096266", "#044a50"];

/**
 * A badge for other pages: a picture and its source. Where badges are published, the source names the file, which is
 * renewed.
 * @param {ProtocolScore} record
 * @param {string} [published]
 */
function badge({ slug, bri, forgeScale, forgeScaleNum }, published) {
  const left = 12 + 7 * slug.length;
  const right = 12 + 7 * `${bri} ${forgeScale}`.length;
  const text = (/** @type {number} */ x, /** @type {string} */ words) =>
    svg("text", { x, y: 14, fill: "#fff", "font-family": "Verdana,sans-serif", "font-size": 11 }, words);
  const picture = svg(
    "svg",
    { width: left + right, height: 20, role: "img" },
    svg("title", {}, `${slug}: BRI ${bri}, ${forgeScale}`),
    svg("rect", { width: left + right, height: 20, rx: 3, fill: "#2b2f33" }),
    svg("rect", { x: left, width: right, height: 20, rx: 3, fill: badgeColours[forgeScaleNum - 1] }),
    text(6, slug),
    text(left + 6, `${bri} ${forgeScale}`),
  );
  return html(
    "section",
    { class: "badge", "aria-labelledby": "badge" },
    html("h2", { id: "badge" }, "Badge"),
    html("p", {}, picture),
    published === undefined &&
      html("p", { class: "quiet" }, "A picture of this score: it does not change when the score does."),
    published === undefined
      ? copyable("Source of the badge", new XMLSerializer().serializeToString(picture))
      : copyable("Source of the badge", embedded(published, slug)),
    published !== undefined && [
      html("p", {}, "The score and its dimensions, as a frame:"),
      copyable(
        "Source of the frame",
        frameOf(`${published}embed/${slug}/index.html`, `Risk score of ${nameOf(slug)}`),
      ),
    ],
  );
}

/**
 * HTML that shows the published badge of a protocol. It stays right when the score changes.
 * @param {string} published
 * @param {string} slug
 */
function embedded(published, slug) {
  // Of a document that loads nothing: the policy of this page may forbid that address.
  const inert = document.implementation.createHTMLDocument("");
  const [link, picture] = [inert.createElement("a"), inert.createElement("img")];
  link.href = `${published}protocols/${slug}/index.html`;
  [picture.src, picture.alt, picture.height] = [
    `${published}badges/${slug}.svg`,
    `Risk score of ${slug}`,
    20,
  ];
  link.append(picture);
  return link.outerHTML;
}
