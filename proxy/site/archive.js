import { ApiError } from "./client.js";
import { closedTo } from "./closed.js";
import { copyable, failure, fill, html } from "./dom.js";
import { choiceList, histogram } from "./facets.js";
import {
  archiveAddress,
  changed,
  countsOf,
  filtersOf,
  inWords,
  labelOf,
  labels,
  ownOf,
  remember,
  scores,
  sides,
  without,
} from "./filters.js";
import { marketItem } from "./market.js";
import { comparedIn, reliability, wantedFor } from "./reliability.js";
import { counted, grouped } from "./words.js";

/**
 * @import { LabelFacet, MarketPage, MonthFacet, ScoreFacet } from "../../schemas/envelopes.ts"
 * @import { Filters } from "./client.js"
 * @import { Site } from "./app.js"
 * @import { Ask, Counts } from "./filters.js"
 * @import { View } from "./router.js"
 */

const defaultPageSize = "25";

/**
 * The archive of resolved markets: the explorer with an Aegis key, and without one what the address asks.
 * @param {Site} site
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function openArchive(site, query) {
  const ending = new AbortController();
  const title = "Archive";
  const element = html(
    "article",
    {},
    html(
      "div",
      { class: "opening" },
      html("h1", {}, "Archive"),
      html(
        "p",
        { class: "lede" },
        "Prediction markets that have resolved, with their scores, outcomes and disputes.",
      ),
    ),
  );
  if (site.api.plan !== "aegis") {
    element.append(...closedTo(site, "The archive", query));
    return { title, element, close: () => ending.abort() };
  }
  const explorer = new Explorer(site);
  element.append(...explorer.parts);
  explorer.show(query);
  return {
    title,
    element,
    close: () => explorer.close(),
    update(route) {
      if (route.name === "archive") explorer.show(route.query);
    },
  };
}

/** Search box, choices with counts, pictures, and the markets. The address holds the query, but never the key. */
class Explorer {
  #api;
  #query = new URLSearchParams();
  #asked = new AbortController();
  /** The page that follows the one shown, and its cursor.
   * @type {{ address: string, cursor: string | null } | undefined} */
  #next;
  #total = html("p", { class: "count", role: "status" });
  #chosen = html("ul", { class: "chosen", "aria-label": "Filters in effect" });
  #problem = html("div", { class: "problem" });
  #tabs = html("nav", { class: "tabs", "aria-label": "What is shown" });
  #side = html("div", { class: "side" });
  #explorer;
  #search;
  #lists;
  #histograms;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;

  /** @param {Site} site */
  constructor({ api }) {
    this.#api = api;
    const go = (/** @type {URLSearchParams} */ query) => this.#go(query);
    this.#lists = new Map(labels.map((facet) => [facet, choiceList(facet, go)]));
    this.#histograms = new Map([...scores, "month"].map((facet) => [facet, histogram(facet, go)]));
    this.#search = html("input", {
      id: "q",
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "Search questions: fed cut*",
      "aria-label": labelOf("q"),
      "aria-describedby": "problem-q",
      oninput: () => {
        clearTimeout(this.#typing);
        this.#typing = setTimeout(() => this.#find(), 250);
      },
    });
    const element = (/** @type {string} */ facet) =>
      (this.#lists.get(facet) ?? this.#histograms.get(facet))?.element;
    const versions = labels.filter((name) => name.endsWith("_version"));
    const [composite = "", ...signals] = scores;
    const order = [composite, ...labels.filter((name) => !versions.includes(name)), ...signals, ...versions];
    this.#explorer = html(
      "div",
      { class: "explorer" },
      // On small screens the filters would hide the markets.
      html(
        "details",
        { class: "narrow", open: innerWidth > 900 },
        html("summary", {}, "Filters"),
        ...order.map(element),
      ),
      html("div", { class: "results" }, element("month"), this.#tabs, this.#side),
    );
    this.parts = [
      html(
        "form",
        {
          class: "search",
          role: "search",
          novalidate: true,
          onsubmit: (event) => {
            event.preventDefault();
            this.#find();
          },
        },
        html("div", { class: "joined" }, this.#search, html("button", { type: "submit" }, "Search")),
        html("div", { id: "problem-q" }),
      ),
      html("div", { class: "found" }, this.#total, this.#chosen),
      this.#problem,
      this.#explorer,
    ];
  }

  close() {
    this.#asked.abort();
    clearTimeout(this.#typing);
  }

  #find() {
    clearTimeout(this.#typing);
    const q = this.#search.value.trim();
    if (q === (this.#query.get("q") ?? "")) return;
    const next = changed(this.#query, { q });
    // One entry of the history for a search, not one for each letter.
    if (this.#query.has("q")) {
      history.replaceState(null, "", archiveAddress(next));
      this.show(next);
    } else this.#go(next);
  }

  /** @param {URLSearchParams} query */
  #go(query) {
    const address = archiveAddress(query);
    if (location.hash === address) this.show(query);
    else location.hash = address;
  }

  /**
   * Asks for what the query selects and shows it.
   * @param {URLSearchParams} query
   */
  async show(query) {
    this.close();
    this.#asked = new AbortController();
    this.#query = query;
    remember(query);
    const { signal } = this.#asked;
    const filters = filtersOf(query);
    for (const { use } of [...this.#lists.values(), ...this.#histograms.values()]) use(query);
    if (document.activeElement !== this.#search) this.#search.value = query.get("q") ?? "";
    fill(
      this.#chosen,
      [...filters].map(([name, value]) =>
        html(
          "li",
          {},
          html(
            "a",
            { href: archiveAddress(changed(query, { [name]: null })), "data-key": `remove ${name}` },
            inWords(name, value),
            html("span", { "aria-hidden": "true" }, " ×"),
            html("span", { class: "unseen" }, " (take away)"),
          ),
        ),
      ),
      filters.size > 1 && html("li", {}, html("a", { href: "#/archive" }, "Clear all")),
    );
    this.#drawTabs();
    this.#clearProblems();
    // What stands there is of the query before until the answers are here.
    for (const part of [this.#total, this.#explorer]) part.setAttribute("aria-busy", "true");
    try {
      const asOf = filters.get("asOf") ?? (await this.#api.pin()).snapshotId;
      signal.throwIfAborted();
      await Promise.all([
        this.#loadPage(filters, asOf, signal),
        this.#loadCounts(this.#served(asOf, signal), signal),
      ]);
    } catch (error) {
      if (signal.aborted) return;
      this.#asked.abort();
      this.#refuse(error);
    }
    for (const part of [this.#total, this.#explorer]) part.removeAttribute("aria-busy");
  }

  #drawTabs() {
    const show = this.#query.get("show") ?? "";
    const tab = (/** @type {[string, string]} */ [value, text]) =>
      html(
        "a",
        {
          href: archiveAddress(changed(this.#query, { show: value })),
          "aria-current": value === show ? "true" : undefined,
          "data-key": `show ${value}`,
        },
        text,
      );
    this.#keepFocus(() => fill(this.#tabs, Object.entries(sides).map(tab)));
  }

  /** Draws, and then gives the focus back to what stands where it was.
   * @param {() => void} draw */
  #keepFocus(draw) {
    const key = document.activeElement?.getAttribute("data-key");
    draw();
    if (key && document.activeElement === document.body)
      /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus();
  }

  /**
   * @param {URLSearchParams} filters
   * @param {string} asOf
   * @param {AbortSignal} signal
   */
  async #loadPage(filters, asOf, signal) {
    const asked = without(this.#query, ["show", "compare"]);
    if (!asked.has("pageSize")) asked.set("pageSize", defaultPageSize);
    asked.set("asOf", asOf);
    const cursor = this.#next?.address === pageAddress(asked, Number(asked.get("page"))) && this.#next.cursor;
    const page = await this.#api.service.page(
      cursor ? { cursor } : /** @type {Filters} */ (Object.fromEntries(asked)),
      { signal },
    );
    signal.throwIfAborted();
    const { total } = page;
    this.#next = { address: pageAddress(asked, page.page + 1), cursor: page.nextCursor };
    fill(this.#total, html("b", {}, grouped(total)), total === 1 ? " market matches" : " markets match");
    const show = this.#query.get("show") ?? "";
    if (show === "file") fill(this.#side, this.#takeAlong(filters, asOf, total));
    else if (show !== "score") fill(this.#side, ...this.#markets(page));
  }

  /** @param {MarketPage} page */
  #markets({ total, count, page, pageSize, markets }) {
    const last = Math.max(1, Math.ceil(total / pageSize));
    const first = (page - 1) * pageSize + 1;
    const range = count > 0 ? `${grouped(first)} to ${grouped(first + count - 1)}` : "none";
    const asOf = this.#query.get("asOf");
    const q = this.#query.get("q");
    const begun = q && !/[*\s]$/.test(q) && `${q}*`;
    return [
      html(
        "ol",
        { class: "markets", start: first },
        markets.map((market) => marketItem(market, asOf)),
      ),
      html(
        "nav",
        { class: "pager", "aria-label": "Pages" },
        html(
          "p",
          { class: "quiet" },
          total > 0
            ? `Showing ${range} of ${grouped(total)}.`
            : "Take a filter away or widen a range to see markets. ",
          total === 0 &&
            begun && [
              "Or look for words that begin so: ",
              html("a", { href: archiveAddress(changed(this.#query, { q: begun })) }, begun),
            ],
        ),
        total > 0 && pagerOf(this.#query, page, last),
      ),
    ];
  }

  /**
   * @param {URLSearchParams} filters
   * @param {string} asOf
   * @param {number} total
   */
  #takeAlong(filters, asOf, total) {
    const path = `${this.#api.base}/markets/historical${filters.size > 0 ? `?${filters}` : ""}`;
    const problem = html("div", { role: "status" });
    const file = (
      /** @type {string} */ name,
      /** @type {string} */ type,
      /** @type {string} */ ending,
      /** @type {string} */ words,
    ) => {
      const line =
        `curl -sS --fail --compressed -H "x-api-key: $KEY" -H "Accept: ${type}" "${path}" -o ` +
        `markets.${ending}`;
      const button = html("button", { type: "button" }, `Download ${name}`);
      button.addEventListener("click", async () => {
        button.disabled = true;
        fill(problem);
        try {
          const href = URL.createObjectURL(await this.#api.download(filters, asOf, type));
          html("a", { href, download: `markets.${ending}` }).click();
          URL.revokeObjectURL(href);
        } catch (error) {
          fill(problem, failure(error));
        }
        button.disabled = false;
      });
      return html(
        "section",
        { class: "take" },
        html("h3", {}, name),
        html("p", { class: "quiet" }, words),
        copyable(`Command for ${name}`, line),
        // The page holds a file in memory until it is whole.
        total <= 20_000 && button,
      );
    };
    return html(
      "div",
      {},
      html(
        "p",
        {},
        `All ${counted(total, "market")} that match, in one file of one snapshot. That costs ` +
          `${counted(Math.ceil(total / 500), "request")} of the day’s quota. In the lines, $KEY is your key.`,
      ),
      file(
        "CSV",
        // Excel takes a file without the mark for another encoding.
        "text/csv; bom=present",
        "csv",
        "One line a market, for spreadsheets and data frames: the fields without evidence.",
      ),
      file(
        "NDJSON",
        "application/x-ndjson",
        "ndjson",
        "One JSON text a line, byte for byte as in the archive, with all evidence.",
      ),
      problem,
    );
  }

  /**
   * Totals and counts by the service.
   * @param {string} asOf
   * @param {AbortSignal} signal
   * @returns {Ask}
   */
  #served(asOf, signal) {
    return (by, filters) => this.#api.service.facets(by, { ...filters, asOf }, { signal });
  }

  /**
   * @param {Ask} ask
   * @param {AbortSignal} signal
   */
  async #loadCounts(ask, signal) {
    const query = this.#query;
    const filters = filtersOf(query);
    const scored = query.get("show") === "score";
    const wanted = [...this.#lists.keys(), ...this.#histograms.keys()].map(
      (facet) => /** @type {[string, URLSearchParams]} */ ([facet, othersOf(facet, filters)]),
    );
    if (scored) wanted.push(...wantedFor(filters, comparedIn(query)));
    const counts = await countsOf(ask, wanted);
    signal.throwIfAborted();
    this.#keepFocus(() => this.#drawCounts(filters, counts));
    if (scored) this.#keepFocus(() => fill(this.#side, ...reliability(query, filters, counts, signal)));
  }

  /**
   * @param {URLSearchParams} filters
   * @param {Counts} counts
   */
  #drawCounts(filters, counts) {
    for (const [facet, { draw }] of this.#lists)
      draw(/** @type {LabelFacet} */ (counts(facet, othersOf(facet, filters))));
    for (const [facet, { draw }] of this.#histograms)
      draw(/** @type {ScoreFacet | MonthFacet} */ (counts(facet, othersOf(facet, filters))));
  }

  /** Shows the error, and no figures: those before it are of another query.
   * @param {unknown} error */
  #refuse(error) {
    fill(this.#total);
    fill(this.#side);
    for (const { clear } of [...this.#lists.values(), ...this.#histograms.values()]) clear();
    const name = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
    const panel = document.getElementById(`problem-${name}`);
    if (!panel)
      return fill(
        this.#problem,
        failure(error, () => this.show(this.#query)),
      );
    panel.closest("details")?.setAttribute("open", "");
    fill(panel, failure(inLabels(error)));
    const field = document.getElementById(name);
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  }

  #clearProblems() {
    fill(this.#problem);
    for (const field of document.querySelectorAll(".explorer [aria-invalid], .search [aria-invalid]")) {
      field.removeAttribute("aria-invalid");
      fill(/** @type {HTMLElement} */ (document.getElementById(`problem-${field.id}`)));
    }
  }
}

/**
 * A count beside a choice says what that choice would lead to, so the facet's own filter does not apply to it.
 * @param {string} facet
 * @param {URLSearchParams} filters
 */
const othersOf = (facet, filters) => without(filters, ownOf(facet));

/**
 * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
 * contains a `_`. Elsewhere a word like "from" is not a name.
 * @param {unknown} error
 */
function inLabels(error) {
  if (!(error instanceof ApiError)) return error;
  const known = [...labels, ...[...scores, "month"].flatMap(ownOf), "q"];
  const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, (name) =>
    known.includes(name) ? `“${labelOf(name)}”` : name,
  );
  return new ApiError(error.code, detail, { title: "Check this field" });
}

/**
 * @param {URLSearchParams} query
 * @param {number} page
 */
function pageAddress(query, page) {
  const other = without(query, ["page"]);
  if (page > 1) other.set("page", `${page}`);
  return archiveAddress(other);
}

/**
 * @param {URLSearchParams} query
 * @param {number} page
 * @param {number} last
 */
function pagerOf(query, page, last) {
  const link = (/** @type {string} */ word, /** @type {number} */ target) =>
    target >= 1 && target <= last && target !== page
      ? html("a", { class: "button", href: pageAddress(query, target) }, word)
      : html("span", { class: "button inert", "aria-disabled": "true", role: "link" }, word);
  const number = html("input", {
    id: "page",
    type: "text",
    inputmode: "numeric",
    autocomplete: "off",
    value: page,
  });
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    const other = new URLSearchParams(query);
    other.set("page", number.value.trim());
    location.hash = archiveAddress(other);
  };
  return html(
    "div",
    { class: "pages" },
    link("First", 1),
    link("Previous", page > last ? last : page - 1),
    link("Next", page + 1),
    link("Last", last),
    html(
      "form",
      { onsubmit: go, novalidate: true, "aria-label": "Page by number" },
      html("label", { for: "page" }, "Page"),
      number,
      html("span", {}, `of ${grouped(last)}`),
      html("button", { type: "submit", class: "plain" }, "Go"),
    ),
  );
}
