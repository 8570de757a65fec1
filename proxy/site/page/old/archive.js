import { createElement, render } from "preact";
import { ApiError, VerificationError } from "../../client/client.ts";
import { comparedIn } from "../filters.ts";
import { SiteContext } from "../store.ts";
import { Reliability, wantedFor } from "../views/reliability.tsx";
import { asItWas } from "./asof.js";
import { copyable, failure, fill, html, skipTo } from "./dom.js";
import { choiceList, histogram } from "./facets.js";
import {
  archiveAddress,
  changed,
  countsOf,
  filtersOf,
  inWords,
  labelOf,
  labels,
  othersOf,
  ownOf,
  scores,
  sides,
  without,
} from "./filters.js";
import { marketItem } from "./market.js";
import { Recomputing } from "./recomputing.js";
import { save } from "./take.js";
import { counted, grouped } from "./words.js";

/**
 * @import { MarketPage } from "../../../../schemas/envelopes.ts"
 * @import { Filters } from "../../client/client.ts"
 * @import { Site } from "./dom.js"
 * @import { Ask, Counts } from "./filters.js"
 * @import { View } from "./dom.js"
 */

/** @typedef {ReturnType<typeof choiceList> | ReturnType<typeof histogram>} Facet */

const defaultPageSize = "25";

/** @param {string} facet */
const isList = (facet) => labels.includes(facet);

/** Waits until the page was painted as it is now. */
const painted = () =>
  new Promise((resolve) => {
    // A page that nobody sees is not painted.
    if (document.hidden) resolve(undefined);
    else requestAnimationFrame(() => setTimeout(resolve));
  });

/**
 * The archive of resolved markets to a reader with an Aegis key.
 * @param {Site} site
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function openArchive(site, query) {
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
  const explorer = new Explorer(site);
  element.append(...explorer.parts);
  explorer.show(query);
  return {
    title,
    element,
    close: () => explorer.end(),
    update(route) {
      if (route.name === "archive") explorer.show(route.query);
    },
  };
}

/** Search box, choices with counts, pictures, and the markets. The address holds the query, but never the key. */
class Explorer {
  #api;
  #query = new URLSearchParams();
  #open = new AbortController();
  #asked = new AbortController();
  /** The page that follows the one shown, and its cursor.
   * @type {{ address: string, cursor: string | null } | undefined} */
  #next;
  #total = html("p", { class: "count", role: "status" });
  #chosen = html("ul", { class: "chosen", "aria-label": "Filters in effect" });
  #problem = html("div", { class: "problem" });
  #tabs = html("nav", { class: "tabs", "aria-label": "What is shown" });
  #side = html("div", { class: "side" });
  #shares = html("div");
  #store;
  #earlier = html("div");
  /** The filters: beside the markets, and on small screens, where they would hide these, over them. */
  #sheet = html("dialog", { class: "sheet", "aria-labelledby": "filters" });
  #done = html("button", { type: "submit", onclick: () => this.#sheet.close() }, "Show markets");
  #recomputing;
  #explorer;
  #search;
  /** The query to which a brush that moves would lead.
   * @type {URLSearchParams | undefined} */
  #aim;
  /** @type {Map<string, Facet>} */
  #facets;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;

  /** @param {Site} site */
  constructor({ api, store }) {
    this.#api = api;
    this.#store = store;
    this.#recomputing = new Recomputing(api, () => this.show(this.#query));
    const go = (/** @type {URLSearchParams} */ query) => this.#go(query);
    const preview = (/** @type {string} */ facet) => (/** @type {URLSearchParams} */ query) =>
      this.#preview(query, facet);
    this.#facets = new Map([
      ...labels.map((facet) => /** @type {const} */ ([facet, choiceList(facet, go)])),
      ...[...scores, "month"].map(
        (facet) => /** @type {const} */ ([facet, histogram(api, facet, go, preview(facet))]),
      ),
    ]);
    this.#search = html("input", {
      id: "q",
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      dir: "auto",
      placeholder: "Search questions: fed cut*",
      "aria-label": labelOf("q"),
      "aria-describedby": "problem-q",
      oninput: () => {
        clearTimeout(this.#typing);
        this.#typing = setTimeout(() => this.#find(), 250);
      },
    });
    const element = (/** @type {string} */ facet) => this.#facets.get(facet)?.element;
    const versions = labels.filter((name) => name.endsWith("_version"));
    const [composite = "", ...signals] = scores;
    const order = [composite, ...labels.filter((name) => !versions.includes(name)), ...signals, ...versions];
    const opener = html(
      "button",
      { type: "button", class: "plain opens", onclick: () => this.#sheet.showModal() },
      "Filters",
    );
    this.#explorer = html(
      "div",
      { class: "explorer" },
      this.#sheet,
      html(
        "div",
        { class: "results" },
        html("h2", { class: "unseen" }, "Results"),
        element("month"),
        this.#tabs,
        this.#side,
      ),
    );
    fill(
      this.#sheet,
      html("h2", { id: "filters", class: "unseen" }, "Filters"),
      ...order.map(element),
      html("p", { class: "done", role: "status" }, this.#done),
    );
    const narrow = matchMedia("(max-width: 56rem)");
    const place = () => {
      this.#sheet.close();
      this.#sheet.toggleAttribute("open", !narrow.matches);
    };
    narrow.addEventListener("change", place, { signal: this.#open.signal });
    place();
    this.parts = [
      skipTo("Skip to the markets", this.#side),
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
      this.#earlier,
      html("div", { class: "found" }, this.#total, opener, this.#recomputing.button, this.#chosen),
      this.#recomputing.panel,
      this.#problem,
      this.#explorer,
    ];
  }

  end() {
    render(null, this.#shares);
    this.#open.abort();
    this.#stop();
    this.#recomputing.close();
  }

  #stop() {
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
      history.replaceState(history.state, "", archiveAddress(next));
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
    this.#stop();
    this.#asked = new AbortController();
    const state = query.get("asOf");
    if (!this.#earlier.hasChildNodes() || state !== this.#query.get("asOf")) {
      const go = (/** @type {string | null} */ asOf) => this.#go(changed(this.#query, { asOf }));
      fill(this.#earlier, asItWas(this.#api, state, go, this.#open.signal));
    }
    this.#query = query;
    this.#store.set({ last: { ...this.#store.state.last, archive: archiveAddress(query) } });
    const { signal } = this.#asked;
    const filters = filtersOf(query);
    for (const { use } of this.#facets.values()) use(query);
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
    const figures = [this.#total, this.#explorer];
    for (const part of [...figures, this.#side]) part.setAttribute("aria-busy", "true");
    try {
      const asOf = filters.get("asOf") ?? (await this.#api.pin()).snapshotId;
      signal.throwIfAborted();
      this.#recomputing.use(asOf);
      const own = this.#recomputing.ask(signal);
      if (own) {
        const total = await this.#recount(own, query, signal);
        for (const part of figures) part.removeAttribute("aria-busy");
        await this.#loadList(query, asOf, total, signal);
      } else {
        const ask = this.#served(asOf, signal);
        await Promise.all([
          this.#loadSide(query, asOf, undefined, signal),
          this.#loadCounts([...this.#facets.keys()], query, ask, false, signal),
        ]);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#asked.abort();
      if (error instanceof VerificationError) this.#recomputing.refuse(error);
      this.#refuse(error);
    }
    for (const part of [...figures, this.#side]) part.removeAttribute("aria-busy");
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
   * The same where the total was recomputed, which stands although the list fails.
   * @param {URLSearchParams} query
   * @param {string} asOf
   * @param {number} counted
   * @param {AbortSignal} signal
   */
  async #loadList(query, asOf, counted, signal) {
    try {
      await this.#loadSide(query, asOf, counted, signal);
    } catch (error) {
      if (signal.aborted || error instanceof VerificationError) throw error;
      fill(
        this.#side,
        failure(error, () => this.show(this.#query)),
      );
    }
  }

  /**
   * Shows what the chosen tab does, except for the shares of disputed markets, which are drawn with the counts.
   * @param {URLSearchParams} query
   * @param {string} asOf
   * @param {number | undefined} counted the total, where it was recomputed
   * @param {AbortSignal} signal
   */
  async #loadSide(query, asOf, counted, signal) {
    const show = query.get("show") ?? "";
    const listed = show !== "score" && show !== "file";
    let total = counted;
    if (total === undefined || listed) {
      const page = await this.#page(query, asOf, signal);
      if (total === undefined) this.#drawTotal(page.total, false);
      total = page.total;
      const recomputed = counted !== undefined && "recomputed";
      if (listed) fill(this.#side, html("div", { class: recomputed }, ...this.#markets(page)));
    }
    if (show === "file") fill(this.#side, this.#takeAlong(filtersOf(query), asOf, total));
  }

  /**
   * @param {URLSearchParams} query
   * @param {string} asOf
   * @param {AbortSignal} signal
   */
  async #page(query, asOf, signal) {
    const asked = without(query, ["show", "compare"]);
    if (!asked.has("pageSize")) asked.set("pageSize", defaultPageSize);
    asked.set("asOf", asOf);
    const cursor = this.#next?.address === pageAddress(asked, Number(asked.get("page"))) && this.#next.cursor;
    const numbers = { pageSize: Number(asked.get("pageSize")), page: Number(asked.get("page") ?? 1) };
    const filters = /** @type {Filters} */ ({ ...Object.fromEntries(asked), ...numbers });
    const page = await this.#api.service.page(cursor ? { cursor } : filters, {
      signal,
      ...this.#recomputing.proof,
    });
    signal.throwIfAborted();
    this.#next = { address: pageAddress(asked, page.page + 1), cursor: page.nextCursor };
    return page;
  }

  /**
   * @param {number} total
   * @param {boolean} recomputed
   */
  #drawTotal(total, recomputed) {
    this.#total.classList.toggle("recomputed", recomputed);
    fill(this.#total, html("b", {}, grouped(total)), total === 1 ? " market matches" : " markets match");
    fill(this.#done, `Show ${counted(total, "market")}`);
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
    const query = new URLSearchParams({ ...Object.fromEntries(filters), asOf });
    const path = `${this.#api.base}/markets/historical?${query}`;
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
          save(await this.#api.download(path, type), `markets.${ending}`);
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
        total > 0 ? `All ${counted(total, "market")} that match` : "No market matches, so a file holds none",
        `, of one snapshot. Each file takes ${counted(Math.max(1, Math.ceil(total / 500)), "request")} of the day’s ` +
          "quota. In the lines, $KEY is your key.",
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
      html(
        "section",
        { class: "take" },
        html("h3", {}, "Delta Sharing"),
        html(
          "p",
          { class: "quiet" },
          "For Spark, pandas, Power BI and Tableau: the whole archive as a table, as it was last exported. The profile " +
            "tells them where it is. It holds your key, so keep it as you keep that.",
        ),
        html(
          "button",
          { type: "button", onclick: () => save(this.#api.sharingProfile(), "prs.share") },
          "Download profile",
        ),
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
   * Shows the total and counts as this browser evaluates them: first the histograms in view, and the rest when those
   * were painted. Returns the total.
   * @param {Ask} own
   * @param {URLSearchParams} query
   * @param {AbortSignal} signal
   */
  async #recount(own, query, signal) {
    const seen = this.#inView().filter((facet) => !isList(facet));
    const total = await this.#recountSome(seen, query, own, signal);
    await painted();
    const others = [...this.#facets.keys()].filter((facet) => !seen.includes(facet));
    await this.#loadCounts(others, query, own, true, signal);
    return total;
  }

  /**
   * @param {readonly string[]} facets
   * @param {URLSearchParams} query
   * @param {Ask} own
   * @param {AbortSignal} signal
   */
  async #recountSome(facets, query, own, signal) {
    const filters = filtersOf(query);
    const counts = await countsOf(
      own,
      facets.map((facet) => [facet, othersOf(facet, filters)]),
    );
    const { total } = await own([], /** @type {Filters} */ (Object.fromEntries(filters)));
    signal.throwIfAborted();
    this.#drawTotal(total, true);
    this.#drawCounts(facets, filters, counts, true);
    return total;
  }

  /** The facets that the reader sees some of. */
  #inView() {
    return [...this.#facets].flatMap(([facet, { element }]) => {
      const { top, bottom } = element.getBoundingClientRect();
      return top < innerHeight && bottom > 0 ? [facet] : [];
    });
  }

  /**
   * Shows what would match while a brush moves, where that asks nobody.
   * @param {URLSearchParams} query
   * @param {string} brushed the facet, whose own counts stay
   */
  async #preview(query, brushed) {
    const { signal } = this.#asked;
    const own = this.#recomputing.ask(signal);
    if (!own) return;
    // The list stays that of the query before.
    const back = `${query}` === `${this.#query}`;
    if (back) this.#side.removeAttribute("aria-busy");
    else this.#side.setAttribute("aria-busy", "true");
    this.#aim = query;
    // What was drawn on the way may have moved out of view since, as lists became shorter and longer.
    const seen = (back ? [...this.#facets.keys()] : this.#inView()).filter((facet) => facet !== brushed);
    try {
      await this.#recountSome(
        seen.filter((facet) => !isList(facet)),
        query,
        own,
        signal,
      );
      await painted();
      // The brush may have moved on.
      if (this.#aim === query) await this.#recountSome(seen.filter(isList), query, own, signal);
    } catch {
      // What is chosen at the end is asked for anew, and its errors are shown.
    }
  }

  /**
   * @param {readonly string[]} facets
   * @param {URLSearchParams} query
   * @param {Ask} ask
   * @param {boolean} recomputed
   * @param {AbortSignal} signal
   */
  async #loadCounts(facets, query, ask, recomputed, signal) {
    const filters = filtersOf(query);
    const scored = query.get("show") === "score";
    const wanted = facets.map(
      (facet) => /** @type {[string, URLSearchParams]} */ ([facet, othersOf(facet, filters)]),
    );
    if (scored) wanted.push(...wantedFor(filters, comparedIn(query)));
    const counts = await countsOf(ask, wanted);
    signal.throwIfAborted();
    this.#drawCounts(facets, filters, counts, recomputed);
    if (!scored) return;
    if (this.#shares.parentElement !== this.#side) {
      render(null, this.#shares);
      fill(this.#side, this.#shares);
    }
    this.#shares.classList.toggle("recomputed", recomputed);
    const value = { api: this.#api, store: this.#store };
    const view = createElement(Reliability, { query, filters, counts });
    render(createElement(SiteContext.Provider, { value, children: view }), this.#shares);
  }

  /**
   * @param {readonly string[]} facets
   * @param {URLSearchParams} filters
   * @param {Counts} counts
   * @param {boolean} recomputed
   */
  #drawCounts(facets, filters, counts, recomputed) {
    this.#keepFocus(() => {
      for (const facet of facets) {
        const { element, draw } = /** @type {Facet} */ (this.#facets.get(facet));
        draw(/** @type {never} */ (counts(facet, othersOf(facet, filters))));
        element.classList.toggle("recomputed", recomputed);
      }
    });
  }

  /** Shows the error, and no figures: those before it are of another query.
   * @param {unknown} error */
  #refuse(error) {
    fill(this.#total);
    fill(this.#done, "Show markets");
    fill(this.#side);
    this.#total.classList.remove("recomputed");
    for (const { clear, element } of this.#facets.values()) {
      clear();
      element.classList.remove("recomputed");
    }
    const name = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
    const panel = document.getElementById(`problem-${name}`);
    if (!panel)
      return fill(
        this.#problem,
        failure(inLabels(error), () => this.show(this.#query)),
      );
    panel.closest("details")?.setAttribute("open", "");
    const sheet = panel.closest("dialog");
    if (sheet && !sheet.open) sheet.showModal();
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
 * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
 * contains a `_`. Elsewhere a word like "from" is not a name.
 * @param {unknown} error
 */
function inLabels(error) {
  if (!(error instanceof ApiError)) return error;
  const known = [...labels, ...[...scores, "month"].flatMap(ownOf), "q", "page", "pageSize"];
  const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, (name) =>
    known.includes(name) ? `“${labelOf(name)}”` : name,
  );
  const title = "parameter" in error && error.parameter ? "Check this" : error.title;
  return new ApiError(error.code, detail, { title });
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
