import { bar } from "./chart.js";
import { failure, fill, html, meaningsOf } from "./dom.js";
import { meanings } from "./meanings.js";
import { change, counted, grouped, moment, steps, tier, tiers } from "./words.js";

/**
 * @import { StoredScoreListEntry as ScoreListEntry } from "../../schemas/records.ts"
 * @import { ForgeTier } from "../../schemas/tiers.ts"
 * @import { Site } from "./app.js"
 * @import { View } from "./router.js"
 */

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {(entry: ScoreListEntry) => string | number} by the value to sort by
 * @property {boolean} [descending] whether the first click sorts in descending order
 * @property {boolean} [number] whether its cells are numbers
 * @property {(entry: ScoreListEntry) => Node} cell
 */

/** @type {readonly Column[]} */
const columns = [
  {
    name: "Protocol",
    by: ({ slug }) => slug,
    cell: ({ slug, category, chain }) =>
      html(
        "span",
        { class: "protocol" },
        html("a", { href: `#/protocols/${slug}` }, slug),
        category !== undefined && html("span", { class: "quiet" }, `${category} · ${chain}`),
      ),
  },
  {
    name: "BRI",
    by: ({ bri }) => bri,
    descending: true,
    number: true,
    cell: ({ bri, forgeScaleNum }) =>
      html("span", { class: `score tier-${forgeScaleNum}` }, bar(bri, 1000), html("b", {}, bri)),
  },
  {
    name: "Forge Scale",
    by: ({ forgeScaleNum }) => forgeScaleNum,
    descending: true,
    cell: ({ forgeScale, forgeScaleNum }) => tier(forgeScale, forgeScaleNum),
  },
  {
    name: "Confidence",
    by: ({ confidence }) => confidence,
    descending: true,
    number: true,
    cell: ({ confidence }) => html("span", {}, confidence),
  },
  {
    name: "Change",
    by: ({ delta }) => delta,
    descending: true,
    number: true,
    cell: ({ delta }) => change(delta),
  },
  {
    name: "Updated",
    by: ({ updatedAt }) => updatedAt,
    descending: true,
    cell: ({ updatedAt }) => moment(updatedAt),
  },
];

/** The reader's choice of filters and order. The address shows it, and it is kept while other views are shown. */
const choice = {
  text: "",
  /** @type {Set<string>} */
  tiers: new Set(),
  column: 1,
  descending: true,
};

/** The address of the scoreboard with the current choice. */
export function scoreboardAddress() {
  const query = new URLSearchParams();
  if (choice.text.trim() !== "") query.set("find", choice.text.trim());
  if (choice.tiers.size > 0) query.set("tier", tiers.filter((name) => choice.tiers.has(name)).join());
  const { name = "" } = columns[choice.column] ?? {};
  if (name !== "BRI" || !choice.descending) query.set("sort", `${choice.descending ? "-" : ""}${name}`);
  return query.size > 0 ? `#/?${query}` : "#/";
}

/** Reads the choice from an address, ignoring unknown tiers and columns.
 * @param {URLSearchParams} query */
function choose(query) {
  choice.text = query.get("find") ?? "";
  const named = query.get("tier")?.split(",") ?? [];
  choice.tiers = new Set(tiers.filter((name) => named.includes(name)));
  const sort = query.get("sort") ?? "-BRI";
  const column = columns.findIndex(({ name }) => name === sort.replace(/^-/, ""));
  choice.column = column < 0 ? 1 : column;
  choice.descending = column < 0 || sort.startsWith("-");
}

/**
 * The list of all protocols, with filters and sorting.
 * @param {Site} site
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function openScoreboard({ api }, query) {
  choose(query);
  const ending = new AbortController();
  const place = html("div", { "aria-busy": "true" }, html("p", { class: "quiet" }, "Loading the scores…"));
  const element = html(
    "article",
    {},
    html("h1", {}, "Risk scores"),
    html(
      "p",
      { class: "lede" },
      "DeFi protocols by their risk. A protocol’s own page shows the twelve dimensions behind its score.",
    ),
    meaningsOf([
      ["BRI", meanings.bri.meaning],
      ["Forge Scale", meanings.tier.meaning],
      ["Confidence", meanings.confidence.meaning],
      ["Change", meanings.delta.meaning],
    ]),
    place,
  );
  /** @type {readonly ScoreListEntry[]} */
  let scores = [];
  load();
  return {
    title: "Risk scores",
    element,
    close: () => ending.abort(),
    update(route) {
      if (route.name !== "scores") return;
      choose(route.query);
      if (scores.length > 0) fill(place, ...board(scores));
    },
  };

  async function load() {
    try {
      ({ scores } = await api.scores(ending.signal));
      fill(place, ...board(scores));
    } catch (error) {
      if (!ending.signal.aborted) fill(place, failure(error));
    }
    place.removeAttribute("aria-busy");
  }
}

/** @param {readonly ScoreListEntry[]} scores */
function board(scores) {
  const rows = new Map(scores.map((entry) => [entry, rowOf(entry)]));
  const body = html("tbody", { role: "rowgroup" });
  const count = html("p", { class: "count", role: "status" });
  const empty = html(
    "p",
    { class: "quiet", hidden: true },
    "No protocol matches. Shorten the text or choose another tier.",
  );
  const headings = columns.map((column, place) =>
    html(
      "th",
      { scope: "col", role: "columnheader", class: column.number ? "number" : undefined },
      html(
        "button",
        { type: "button", onclick: () => sortBy(place) },
        column.name,
        html("span", { class: "arrow", "aria-hidden": "true" }),
      ),
    ),
  );
  const text = html("input", {
    id: "filter",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    value: choice.text,
    oninput: () => {
      choice.text = text.value;
      redraw();
    },
  });
  const chips = tiers.toReversed().map((name) => chipOf(name, scores, redraw));

  /** @param {number} place */
  function sortBy(place) {
    choice.descending = choice.column === place ? !choice.descending : (columns[place]?.descending ?? false);
    choice.column = place;
    redraw();
  }

  function redraw() {
    // A new history entry for every letter typed would make the back button useless.
    history.replaceState(null, "", scoreboardAddress());
    draw();
  }

  function draw() {
    const shown = sorted(scores.filter(matches));
    fill(
      body,
      shown.map((entry) => rows.get(entry)),
    );
    empty.hidden = shown.length > 0;
    fill(count, html("b", {}, grouped(shown.length)), ` of ${counted(scores.length, "protocol")}`);
    for (const [place, heading] of headings.entries()) {
      if (place === choice.column)
        heading.setAttribute("aria-sort", choice.descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
  }
  draw();

  const table = html(
    "table",
    { class: "board", role: "table" },
    html(
      "caption",
      { class: "unseen" },
      "Protocols and their scores. The buttons in the headings sort the table.",
    ),
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, headings)),
    body,
  );
  return [
    html(
      "div",
      { class: "tools" },
      html(
        "div",
        { class: "field" },
        html("label", { for: "filter" }, "Find a protocol, category or chain"),
        text,
      ),
      html("fieldset", { class: "chips" }, html("legend", {}, "Tiers"), chips),
    ),
    count,
    table,
    empty,
  ];
}

/**
 * A toggle button for a tier. While none is pressed, all tiers are shown.
 * @param {ForgeTier} name
 * @param {readonly ScoreListEntry[]} scores
 * @param {() => void} changed
 */
function chipOf(name, scores, changed) {
  const number = tiers.indexOf(name) + 1;
  const chip = html(
    "button",
    {
      type: "button",
      class: `chip tier-${number}`,
      "aria-pressed": `${choice.tiers.has(name)}`,
      onclick: toggle,
    },
    steps(number),
    html("span", { class: "tier-name" }, name),
    html("span", { class: "tally" }, scores.filter(({ forgeScale }) => forgeScale === name).length),
  );
  function toggle() {
    if (!choice.tiers.delete(name)) choice.tiers.add(name);
    chip.setAttribute("aria-pressed", `${choice.tiers.has(name)}`);
    changed();
  }
  return chip;
}

/** @param {ScoreListEntry} entry */
function matches({ slug, category, chain, forgeScale }) {
  const words = choice.text.toLowerCase().split(/\s+/);
  const all = [slug, category, chain].join(" ").toLowerCase();
  return (
    words.every((word) => all.includes(word)) && (choice.tiers.size === 0 || choice.tiers.has(forgeScale))
  );
}

/** @param {ScoreListEntry[]} entries */
function sorted(entries) {
  const by = columns[choice.column]?.by ?? (({ slug }) => slug);
  const sign = choice.descending ? -1 : 1;
  const compare = (/** @type {string | number} */ a, /** @type {string | number} */ b) =>
    a < b ? -1 : a > b ? 1 : 0;
  return entries.sort((a, b) => sign * compare(by(a), by(b)) || compare(a.slug, b.slug));
}

/** @param {ScoreListEntry} entry */
function rowOf(entry) {
  // On narrow screens CSS lays rows out as cards, which removes the implicit table roles. So they are stated here.
  return html(
    "tr",
    { role: "row" },
    columns.map(({ name, number, cell }, place) =>
      html(
        place === 0 ? "th" : "td",
        {
          role: place === 0 ? "rowheader" : "cell",
          scope: place === 0 ? "row" : undefined,
          class: number ? "number" : undefined,
          "data-name": name,
        },
        cell(entry),
      ),
    ),
  );
}
