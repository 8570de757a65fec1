import { ApiError } from "./client.js";
import { failure, fill, html, meaningsOf } from "./dom.js";
import { planNames } from "./key.js";
import { marketItem } from "./market.js";
import { meanings } from "./meanings.js";
import { counted, grouped, spoken, tiers } from "./words.js";

/**
 * @import { Child } from "./dom.js"
 * @import { MarketPage } from "../../schemas/envelopes.ts"
 * @import { Site } from "./app.js"
 * @import { View } from "./router.js"
 */

/** The names of INTERFACE 2.5. */
const dimensions = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];
const pageSizes = ["10", "25", "50", "100", "500"];
const defaultPageSize = "25";

/**
 * The archive of resolved markets: the explorer with an Aegis key, an introduction without one.
 * @param {Site} site
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function openArchive(site, query) {
  const { api } = site;
  const ending = new AbortController();
  const title = "Archive";
  const introduction = html(
    "p",
    { class: "lede" },
    "Prediction markets that have resolved, newest first. Each has a composite score and its tier, the outcome and ",
    "whether it was disputed, and six dimensions of risk with their weights and the evidence behind them.",
  );
  const legend = meaningsOf([
    ["Composite", meanings.composite.meaning],
    ["Tier", meanings.tier.meaning],
    ["Dimensions", meanings.marketDimension.meaning],
  ]);
  const element = html("article", {}, html("h1", {}, "Archive of resolved markets"), introduction, legend);
  if (api.plan !== "aegis") {
    element.append(...closedArchive(site, ending.signal));
    return { title, element, close: () => ending.abort() };
  }
  const explorer = new Explorer(site);
  // On small screens the form would hide the markets.
  const open = window.innerWidth > 750;
  element.append(html("details", { open }, html("summary", {}, "Filters"), explorer.form), explorer.results);
  explorer.show(query);
  return {
    title,
    element,
    close: () => explorer.close(),
    update(route) {
      if (route.name === "archive") explorer.show(route.query, true);
    },
  };
}

/**
 * @param {Site} site
 * @param {AbortSignal} signal
 */
function closedArchive({ api, askForKey }, signal) {
  if (!api.live) {
    return [
      html("p", {}, "This copy of the site has only files. The archive needs the service and an Aegis key."),
    ];
  }
  const size = html("p", {});
  const count = async () => {
    try {
      const { counts, newestResolvedAt } = await api.status(signal);
      const newest = newestResolvedAt.slice(0, 10);
      fill(
        size,
        html("b", {}, counted(counts.markets, "market")),
        ` are in the archive. The newest resolved on ${newest}.`,
      );
    } catch {
      // The page works without the count.
    }
  };
  count();
  const why = api.keyed
    ? `The archive needs a key of the Aegis plan; yours is on the ${planNames[api.plan]} plan.`
    : "The archive needs a key of the Aegis plan. ";
  const enter = html(
    "button",
    { type: "button", class: "plain", onclick: () => askForKey() },
    "Enter an API key",
  );
  return [
    size,
    html("p", { class: "notice" }, why, !api.keyed && enter),
    html("h2", {}, "What a market is scored on"),
    html(
      "ul",
      { class: "columns" },
      dimensions.map((key) => html("li", {}, spoken(key))),
    ),
    html(
      "p",
      { class: "quiet" },
      "The explorer filters by these dimensions, category, tier, outcome, dispute, composite score and time of ",
      "resolution, in any combination, and shows the exact number of matches.",
    ),
  ];
}

/** The filter form and the resulting page of markets. The address holds the query, but never the key. */
class Explorer {
  #api;
  #heading = html("h2", { id: "results", tabindex: "-1" }, "Markets");
  #total = html("p", { class: "count", role: "status" });
  #problem = html("div");
  #list = html("ol", { class: "markets" });
  #pager = html("nav", { class: "pager", "aria-label": "Pages" });
  /** @type {Map<string, { label: string, input: HTMLInputElement | HTMLSelectElement, problem: HTMLElement }>} */
  #fields = new Map();
  #asked = new AbortController();

  /** @param {Site} site */
  constructor({ api }) {
    this.#api = api;
    this.form = this.#makeForm();
    this.results = html(
      "section",
      { "aria-labelledby": "results" },
      html("div", { class: "resulthead" }, this.#heading, this.#total),
      this.#problem,
      this.#list,
      this.#pager,
    );
  }

  close() {
    this.#asked.abort();
  }

  /**
   * Requests the markets of a query and shows them.
   * @param {URLSearchParams} query
   * @param {boolean} [moveFocus] to the results, or to the invalid field
   */
  async show(query, moveFocus = false) {
    this.close();
    this.#asked = new AbortController();
    const { signal } = this.#asked;
    this.#clearProblems();
    for (const [name, { input }] of this.#fields) {
      input.value = query.get(name) ?? (name === "pageSize" ? defaultPageSize : "");
    }
    const asked = new URLSearchParams(query);
    if (!asked.has("pageSize")) asked.set("pageSize", defaultPageSize);
    this.results.setAttribute("aria-busy", "true");
    try {
      const page = await this.#api.markets(asked, signal);
      this.#draw(page, query);
      if (moveFocus) this.#heading.focus();
    } catch (error) {
      if (signal.aborted) return;
      this.#refuse(error, moveFocus);
    }
    this.results.removeAttribute("aria-busy");
  }

  /**
   * @param {MarketPage} page
   * @param {URLSearchParams} query
   */
  #draw({ total, count, page, pageSize, markets }, query) {
    const last = Math.max(1, Math.ceil(total / pageSize));
    fill(this.#total, html("b", {}, grouped(total)), total === 1 ? " market matches" : " markets match");
    const first = (page - 1) * pageSize + 1;
    fill(this.#list, markets.map(marketItem));
    this.#list.setAttribute("start", `${first}`);
    const range = count > 0 ? `${grouped(first)} to ${grouped(first + count - 1)}` : "none";
    fill(
      this.#pager,
      html(
        "p",
        { class: "quiet" },
        total > 0
          ? `Showing ${range} of ${grouped(total)}.`
          : "Remove a filter or widen a range to see markets.",
      ),
      total > 0 && pagerOf(query, page, last),
    );
  }

  /**
   * @param {unknown} error
   * @param {boolean} moveFocus
   */
  #refuse(error, moveFocus) {
    fill(this.#total);
    fill(this.#list);
    fill(this.#pager);
    const name = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
    const field = this.#fields.get(name);
    if (!field) {
      fill(this.#problem, failure(error));
      if (moveFocus) this.#heading.focus();
      return;
    }
    field.input.closest("details")?.setAttribute("open", "");
    fill(field.problem, failure(this.#spoken(error)));
    field.input.setAttribute("aria-invalid", "true");
    field.input.focus();
  }

  /**
   * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
   * contains a `_`. Elsewhere a word like "from" is not a name.
   * @param {unknown} error
   */
  #spoken(error) {
    if (!(error instanceof ApiError)) return error;
    const label = (/** @type {string} */ name) => {
      const field = this.#fields.get(name);
      return field ? `“${field.label}”` : name;
    };
    const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, label);
    return new ApiError(error.code, detail, { title: "Check this field" });
  }

  #clearProblems() {
    fill(this.#problem);
    for (const { input, problem } of this.#fields.values()) {
      fill(problem);
      input.removeAttribute("aria-invalid");
    }
  }

  #makeForm() {
    return html(
      "form",
      {
        class: "filters",
        novalidate: true,
        autocomplete: "off",
        "aria-label": "Filters",
        onsubmit: (event) => this.#submit(event),
      },
      this.#field("q", "Words of the question", textInput()),
      this.#field("category", "Category", textInput()),
      this.#field("outcome", "Outcome", textInput()),
      this.#field("tier", "Tier", select(["", ...tiers])),
      this.#field("disputed", "Disputed", select(["", "true", "false"], { true: "Yes", false: "No" })),
      this.#field("formula_version", "Formula version", textInput()),
      this.#field("weight_version", "Weight version", textInput()),
      this.#range("Resolved", "from", "to", "YYYY-MM-DD"),
      this.#range("Composite", "min_composite", "max_composite", "300", "1000"),
      dimensions.map((key) => this.#range(spoken(key), `min_${key}`, `max_${key}`, "0", "100")),
      html(
        "div",
        { class: "actions" },
        this.#field("pageSize", "Per page", select(pageSizes)),
        html("button", { type: "submit" }, "Show markets"),
        html("a", { href: "#/archive", class: "button plain" }, "Clear"),
      ),
    );
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {HTMLInputElement | HTMLSelectElement} input
   * @param {Child[]} shown what the label element holds, if not just the label
   */
  #field(name, label, input, shown = [label]) {
    const problem = html("div", { id: `problem-${name}` });
    input.id = name;
    input.name = name;
    input.setAttribute("aria-describedby", problem.id);
    this.#fields.set(name, { label, input, problem });
    return html("div", { class: "field" }, html("label", { for: name }, shown), input, problem);
  }

  /**
   * @param {string} title
   * @param {string} low
   * @param {string} high
   * @param {string} lowHint
   * @param {string} highHint
   */
  #range(title, low, high, lowHint, highHint = lowHint) {
    const words = low === "from" ? { low: "from", high: "to" } : { low: "at least", high: "at most" };
    const end = (/** @type {string} */ name, /** @type {string} */ word, /** @type {string} */ hint) =>
      this.#field(name, `${title}, ${word}`, textInput(hint), [
        html("span", { class: "unseen" }, `${title}, `),
        word,
      ]);
    return html(
      "fieldset",
      { class: "range" },
      html("legend", {}, title),
      end(low, words.low, lowHint),
      end(high, words.high, highHint),
    );
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const [name, { input }] of this.#fields) {
      // Sent as typed: the service validates it.
      if (input.value !== "" && !(name === "pageSize" && input.value === defaultPageSize))
        query.set(name, input.value);
    }
    const hash = addressOf(query);
    if (location.hash === hash) this.show(query, true);
    else location.hash = hash;
  }
}

/** @param {URLSearchParams} query */
const addressOf = (query) => (query.size > 0 ? `#/archive?${query}` : "#/archive");

/**
 * @param {URLSearchParams} query
 * @param {number} page
 */
function pageAddress(query, page) {
  const other = new URLSearchParams(query);
  if (page === 1) other.delete("page");
  else other.set("page", `${page}`);
  return addressOf(other);
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
    location.hash = addressOf(other);
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

/** @param {string} [placeholder] */
function textInput(placeholder) {
  return html("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder });
}

/**
 * @param {readonly string[]} values
 * @param {Record<string, string>} [words] labels of values that are not shown literally
 */
function select(values, words = {}) {
  return html(
    "select",
    {},
    values.map((value) => html("option", { value }, words[value] ?? (value === "" ? "Any" : value))),
  );
}
