import { nameOf } from "../../../../schemas/names.ts";
import { bar, columnChart, diverging } from "./chart.js";
import { peerAddress } from "./compare.js";
import { curve } from "./curve.js";
import { failure, fill, html, skipTo } from "./dom.js";
import { takeAlong } from "./take.js";
import { ago, change, counted, grouped, minutes, moment, tier, tiers } from "./words.js";

/**
 * @import { ScoreListEntry } from "../../../../schemas/records.ts"
 * @import { ForgeTier } from "../../../../schemas/scales.ts"
 * @import { Site } from "./dom.js"
 * @import { Meaning } from "./explain.js"
 * @import { View } from "./dom.js"
 */

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {(entry: ScoreListEntry) => string | number} by the value to sort by
 * @property {boolean} [descending] whether the first click sorts in descending order
 * @property {boolean} [number] whether its cells are numbers
 * @property {Meaning} [about]
 * @property {(entry: ScoreListEntry, most: number) => Node | string} cell `most`: the largest change of all
 */

/** @type {readonly Column[]} */
const columns = [
  {
    name: "Protocol",
    by: ({ slug }) => slug,
    cell: ({ slug }) => html("a", { href: `#/protocols/${slug}` }, nameOf(slug)),
  },
  {
    name: "Category",
    by: ({ category = "" }) => category,
    cell: ({ category = "" }) => html("bdi", {}, category),
  },
  { name: "Chain", by: ({ chain = "" }) => chain, cell: ({ chain = "" }) => html("bdi", {}, chain) },
  {
    name: "TVL",
    by: ({ tvl = "" }) => amountOf(tvl),
    descending: true,
    number: true,
    about: "tvl",
    cell: ({ tvl = "" }) => tvl,
  },
  {
    name: "BRI",
    by: ({ bri }) => bri,
    descending: true,
    number: true,
    about: "bri",
    cell: ({ bri, forgeScaleNum }) =>
      html("span", { class: `score tier-${forgeScaleNum}` }, bar(bri, 1000), html("b", {}, bri)),
  },
  {
    name: "Tier",
    by: ({ forgeScaleNum }) => forgeScaleNum,
    descending: true,
    about: "tier",
    cell: ({ forgeScale, forgeScaleNum }) => tier(forgeScale, forgeScaleNum),
  },
  {
    name: "Confidence",
    by: ({ confidence }) => confidence,
    descending: true,
    number: true,
    about: "confidence",
    cell: ({ confidence }) => `${confidence}`,
  },
  {
    name: "Change",
    by: ({ delta }) => delta,
    descending: true,
    number: true,
    about: "delta",
    cell: ({ delta }, most) => html("span", { class: "moved" }, diverging(delta, most), change(delta)),
  },
  {
    name: "Updated",
    by: ({ updatedAt }) => updatedAt,
    descending: true,
    cell: ({ updatedAt }) => moment(updatedAt),
  },
];
const briColumn = columns.findIndex(({ name }) => name === "BRI");

/** How many rows are drawn at once; more when the reader comes to their end. */
const batch = 60;
/** How many of them are drawn before the page answers again, when all are wanted. */
const slice = 20;

const magnitudes = ["", "K", "M", "B", "T"];

/** The number that a text like `$1.2B` shows, or −1.
 * @param {string} text */
export function amountOf(text) {
  const [, number, unit = ""] = /^\D*([\d.,]+)\s*([KMBT]?)/i.exec(text) ?? [];
  if (number === undefined) return -1;
  return Number(number.replaceAll(",", "")) * 1000 ** magnitudes.indexOf(unit.toUpperCase());
}

/** The reader's choice of filters and order. The address shows it, and it is kept while other views are shown. */
const choice = {
  text: "",
  /** @type {Set<string>} */
  tiers: new Set(),
  column: briColumn,
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
  choice.column = column < 0 ? briColumn : column;
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
  const { signal } = ending;
  const panel = html("div", { "aria-busy": "true" }, html("p", { class: "quiet" }, "Loading the scores…"));
  const about = html("p", { class: "lede" }, "DeFi protocols by their risk. Higher is safer.");
  const element = html(
    "article",
    {},
    html("div", { class: "opening" }, html("h1", {}, "Risk scores"), about),
    panel,
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
      if (scores.length > 0) draw();
    },
  };

  async function load() {
    try {
      const list = await api.scores.scores({ signal });
      ({ scores } = list);
      about.append(` Updated ${minutes(list.updatedAt)}, ${ago(list.updatedAt, Date.now())}.`);
      draw();
    } catch (error) {
      if (!signal.aborted) fill(panel, failure(error, load));
    }
    panel.removeAttribute("aria-busy");
  }

  function draw() {
    fill(panel, ...board(scores, api.keyed ? curveOf : undefined), takeScores());
  }

  function takeScores() {
    return takeAlong(api, {
      name: "scores",
      title: "The BRI of all protocols",
      frame: () => panel.querySelector(".distribution .columns-frame"),
      asked: () => [{ path: "scores" }],
      ...(api.published !== undefined && { embed: `${api.published}embed/index.html` }),
    });
  }

  /** @param {string} slug */
  async function curveOf(slug) {
    try {
      const { points } = await api.service.history(slug, { signal });
      const name = `BRI of ${nameOf(slug)} over ${counted(points.length, "run")}`;
      return html("div", {}, curve(points, scores, name, signal));
    } catch (error) {
      const panel = html("div");
      fill(
        panel,
        failure(error, async () => fill(panel, await curveOf(slug))),
      );
      return panel;
    }
  }
}

/** Columns of the distribution: each of 25 points of BRI, piled up by tier.
 * @param {readonly ScoreListEntry[]} scores */
export function distribution(scores) {
  return Array.from({ length: 40 }, (_, index) => {
    const within = scores.filter(({ bri }) => Math.min(39, Math.floor(bri / 25)) === index);
    return tiers.flatMap((name, number) => {
      const value = within.filter(({ forgeScale }) => forgeScale === name).length;
      const title =
        `${counted(value, "protocol")} of tier ${name} with a BRI of ${25 * index} to ` +
        `${index === 39 ? 1000 : 25 * index + 24}`;
      return value === 0 ? [] : [{ value, class: `column tier-${number + 1}`, title }];
    });
  });
}

/**
 * @param {readonly ScoreListEntry[]} scores
 * @param {((slug: string) => Promise<Node>) | undefined} curveOf
 */
function board(scores, curveOf) {
  const most = Math.max(...scores.map(({ delta }) => Math.abs(delta)));
  /** @type {Map<ScoreListEntry, HTMLElement[]>} */
  const rows = new Map();
  const body = html("tbody", { role: "rowgroup" });
  const count = html("p", { class: "count", role: "status" });
  const empty = html(
    "p",
    { class: "quiet", hidden: true },
    "No protocol matches. Shorten the text or choose another tier.",
  );
  const headings = columns.map((column, index) =>
    html(
      "th",
      {
        scope: "col",
        role: "columnheader",
        class: `${column.number ? "number" : ""} col-${column.name.toLowerCase()}`,
      },
      html(
        "button",
        { type: "button", onclick: () => sortBy(index), "data-meaning": column.about },
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
    placeholder: "Find a protocol, category, chain or TVL",
    "aria-label": "Find a protocol, category, chain or TVL",
    value: choice.text,
    oninput: () => {
      choice.text = text.value;
      draw();
      // Browsers fetch the icon anew with every address.
      clearTimeout(typing);
      typing = setTimeout(note, 400);
    },
    // Before a link is followed, the field loses the focus.
    onchange: () => note(),
  });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  const chips = tiers.map((name) => chipOf(name, scores, toggle));
  const picture = html("div", { class: "distribution" });

  /** Matches that are not drawn yet. A browser needs a second for a thousand rows.
   * @type {readonly ScoreListEntry[]} */
  let following = [];
  let all = false;
  const rest = html("button", {
    type: "button",
    class: "plain",
    onclick: () => {
      all = true;
      rest.hidden = true;
      setTimeout(showSlice);
    },
  });
  const showSlice = () => {
    if (all) showMore(slice);
  };
  new IntersectionObserver(([entry]) => {
    if (entry?.isIntersecting) showMore(batch);
  }).observe(rest);

  /** @param {number} count */
  function showMore(count) {
    for (const entry of following.slice(0, count)) {
      const made = rows.get(entry) ?? rowsOf(entry, scores, most, curveOf);
      rows.set(entry, made);
      body.append(...made);
    }
    following = following.slice(count);
    all &&= following.length > 0;
    rest.hidden = all || following.length === 0;
    fill(rest, `Show ${grouped(following.length)} more`);
    // All at once, they would hold up the page for as long. Clicks and keys come between.
    if (all) setTimeout(showSlice);
  }

  /** @param {number} index */
  function sortBy(index) {
    choice.descending = choice.column === index ? !choice.descending : (columns[index]?.descending ?? false);
    choice.column = index;
    redraw();
  }

  /** @param {ForgeTier} name */
  function toggle(name) {
    if (!choice.tiers.delete(name)) choice.tiers.add(name);
    redraw();
  }

  function redraw() {
    note();
    draw();
  }

  function note() {
    clearTimeout(typing);
    // A new history entry for every choice would make the back button useless.
    if (rest.isConnected) history.replaceState(history.state, "", scoreboardAddress());
  }

  function draw() {
    const shown = sorted(scores.filter(matches));
    fill(body);
    all = false;
    following = shown;
    showMore(batch);
    empty.hidden = shown.length > 0;
    fill(count, html("b", {}, grouped(shown.length)), ` of ${counted(scores.length, "protocol")}`);
    for (const [index, heading] of headings.entries()) {
      if (index === choice.column)
        heading.setAttribute("aria-sort", choice.descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
    for (const [index, name] of tiers.entries()) {
      chips[index]?.setAttribute("aria-pressed", `${choice.tiers.has(name)}`);
      const faded = choice.tiers.size > 0 && !choice.tiers.has(name);
      for (const piece of picture.querySelectorAll(`.tier-${index + 1}`))
        piece.classList.toggle("faded", faded);
    }
  }
  const piles = distribution(scores);
  const tallest = Math.max(...piles.map((pile) => pile.reduce((sum, { value }) => sum + value, 0)));
  const chart = columnChart(piles, {
    label: `How many protocols have which BRI, from 0 to 1,000. ${tiers
      .map((name) => `${name}: ${scores.filter(({ forgeScale }) => forgeScale === name).length}`)
      .join(", ")}.`,
    axis: ["0", "250", "BRI 500", "750", "1,000"],
  });
  chart.addEventListener("click", ({ target }) => {
    const [, number] =
      /\btier-(\d)/.exec((target instanceof Element && target.getAttribute("class")) || "") ?? [];
    const name = tiers[Number(number) - 1];
    if (name) toggle(name);
  });
  const caption = `Protocols by BRI, in columns of 25 points; the tallest has ${counted(tallest, "protocol")}.`;
  fill(picture, html("p", { class: "quiet" }, caption), chart);
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
    skipTo("Skip to the protocols", body),
    movers(scores),
    picture,
    html("div", { class: "chips", role: "group", "aria-label": "Tiers" }, chips),
    html("div", { class: "tools" }, text, count),
    table,
    rest,
    empty,
  ];
}

/** How many movers are named. */
const few = 5;

/**
 * The largest moves of the day of the newest run, each protocol's in its last run.
 * @param {readonly ScoreListEntry[]} scores
 */
function movers(scores) {
  const day = scores
    .reduce((newest, { updatedAt }) => (updatedAt > newest ? updatedAt : newest), "")
    .slice(0, 10);
  const sorted = scores
    .filter(({ delta, updatedAt }) => delta !== 0 && updatedAt.startsWith(day))
    .toSorted((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
  const moved = sorted.slice(0, few);
  const least = Math.abs(moved.at(-1)?.delta ?? 0);
  const equal = sorted.slice(few).filter(({ delta }) => Math.abs(delta) === least).length;
  return (
    moved.length > 0 &&
    html(
      "p",
      { class: "movers" },
      html("span", { class: "quiet" }, `Moved most in their last run, of those that ran on ${day}: `),
      moved.flatMap(({ slug, delta }, index) => [
        index > 0 ? ", " : "",
        html("a", { href: `#/protocols/${slug}` }, nameOf(slug)),
        " ",
        change(delta),
      ]),
      equal > 0 && `, and ${grouped(equal)} more by ${least} up or down`,
    )
  );
}

/**
 * A toggle button for a tier. While none is pressed, all tiers are shown.
 * @param {ForgeTier} name
 * @param {readonly ScoreListEntry[]} scores
 * @param {(name: ForgeTier) => void} toggle
 */
const chipOf = (name, scores, toggle) =>
  html(
    "button",
    { type: "button", class: "chip", onclick: () => toggle(name) },
    tier(name),
    html("span", { class: "tally" }, scores.filter(({ forgeScale }) => forgeScale === name).length),
  );

/** @param {ScoreListEntry} entry */
function matches({ slug, category, chain, tvl, forgeScale }) {
  if (choice.tiers.size > 0 && !choice.tiers.has(forgeScale)) return false;
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const all = [slug, nameOf(slug), category, chain, tvl].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** @param {ScoreListEntry[]} entries */
function sorted(entries) {
  const by = columns[choice.column]?.by ?? (({ slug }) => slug);
  const sign = choice.descending ? -1 : 1;
  const compare = (/** @type {string | number} */ a, /** @type {string | number} */ b) =>
    a < b ? -1 : a > b ? 1 : 0;
  return entries
    .map((entry) => /** @type {const} */ ([by(entry), entry]))
    .sort(([a, one], [b, other]) => sign * compare(a, b) || compare(one.slug, other.slug))
    .map(([, entry]) => entry);
}

/**
 * The row of an entry; once it was opened, also the row with its curve.
 * @param {ScoreListEntry} entry
 * @param {readonly ScoreListEntry[]} scores
 * @param {number} most
 * @param {((slug: string) => Promise<Node>) | undefined} curveOf
 */
function rowsOf(entry, scores, most, curveOf) {
  // On narrow screens CSS lays rows out as cards, which removes the implicit table roles. So they are stated here.
  const row = html(
    "tr",
    { role: "row" },
    columns.map(({ name, number, about, cell }, index) =>
      html(
        index === 0 ? "th" : "td",
        {
          role: index === 0 ? "rowheader" : "cell",
          scope: index === 0 ? "row" : undefined,
          class: number ? "number" : undefined,
          "data-name": name,
          "data-meaning": about,
        },
        cell(entry, most),
      ),
    ),
  );
  const rows = [row];
  if (curveOf) {
    const opener = html(
      "button",
      {
        type: "button",
        class: "opener",
        "aria-expanded": "false",
        "aria-label": `Curve of ${nameOf(entry.slug)}`,
      },
      "",
    );
    opener.addEventListener("click", async () => {
      const open = opener.getAttribute("aria-expanded") === "false";
      opener.setAttribute("aria-expanded", `${open}`);
      rows.splice(1).forEach((each) => {
        each.remove();
      });
      if (!open) return;
      const cell = html("td", { role: "cell", colspan: columns.length, "aria-busy": "true" });
      const curve = html("tr", { role: "row", class: "curve" }, cell);
      rows.push(curve);
      row.after(curve);
      fill(cell, await curveOf(entry.slug));
      cell.removeAttribute("aria-busy");
    });
    row.firstElementChild?.prepend(opener);
  }
  row.firstElementChild?.append(
    html("a", {
      class: "compare",
      href: peerAddress(entry, scores),
      title: "Compare with the nearest BRI of its category",
      "aria-label": `Compare ${nameOf(entry.slug)}`,
    }),
  );
  return rows;
}
