import { facts, failure, fill, html } from "./dom.js";
import { labels, scores } from "./filters.js";
import { counted, grouped, minutes, size } from "./words.js";

/**
 * @import { Api } from "../api.ts"
 * @import { Recomputed, Trust } from "../../client/client.ts"
 * @import { Child } from "./dom.js"
 * @import { Ask } from "./filters.js"
 */

/**
 * What this browser recomputes the numbers of a snapshot from. `first` tells what was checked.
 * @typedef {{ asOf: string, trust: Trust, first: Recomputed }} Own
 */

/** Bytes for each market, of all columns of the index and of the words of the questions. */
const [columnBytes, wordBytes] = [13.6, 8];
/** Of an archive's index that hardly has markets. */
const leastBytes = 10_000;
/** A request of the quota pays for so many. */
const unitBytes = 2 ** 18;

/** Offers to recompute the totals and counts of a snapshot in this browser, and tells what was checked. */
export class Recomputing {
  #api;
  #changed;
  #asOf = "";
  /** @type {AbortController | undefined} */
  #fetching;
  /** Why the numbers of this snapshot could not be recomputed.
   * @type {{ asOf: string, error: unknown } | undefined} */
  #failed;
  #key = html("textarea", {
    id: "trust",
    rows: 1,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "NAME+ID+BASE64",
    "aria-describedby": "trust-problem",
  });
  #problem = html("div", { id: "trust-problem" });
  #state = html("div");

  /**
   * @param {Api} api
   * @param {() => void} changed called when other numbers are to be shown than before
   */
  constructor(api, changed) {
    this.#api = api;
    this.#changed = changed;
    const { key, entry = "" } = api.own?.trust ?? {};
    this.#key.value = `${key ?? entry}`;
    this.button = html("button", {
      id: "recompute",
      type: "button",
      class: "plain",
      "aria-controls": "recomputing",
      onclick: () => this.#open(this.panel.hidden === true),
    });
    this.panel = html(
      "section",
      { id: "recomputing", class: "recomputing", "aria-label": "Recompute here", hidden: true },
      this.#state,
    );
  }

  /**
   * The snapshot whose numbers the page shows.
   * @param {string} asOf
   */
  use(asOf) {
    if (asOf === this.#asOf) return;
    this.close();
    this.#asOf = asOf;
    this.#draw();
  }

  /** Ends what is under way. */
  close() {
    this.#fetching?.abort();
  }

  get #own() {
    const { own } = this.#api;
    return own?.asOf === this.#asOf ? own : undefined;
  }

  /**
   * Evaluates totals and counts in this browser, or is undefined where the service is to be asked.
   * @param {AbortSignal} signal
   * @returns {Ask | undefined}
   */
  ask(signal) {
    const own = this.#own;
    return (
      own &&
      ((by, { asOf: _, ...filters }) => {
        const { asOf, trust } = own;
        return this.#api.service.recompute({ filters, by, asOf, trust, signal });
      })
    );
  }

  /** How pages of markets are asked for, so that they are those that match. */
  get proof() {
    const own = this.#own;
    return own && { verified: true, trust: own.trust };
  }

  /**
   * Takes the service's numbers from now on, and says why.
   * @param {unknown} error
   */
  refuse(error) {
    this.#api.own = undefined;
    this.#failed = { asOf: this.#asOf, error };
    this.#open(true);
  }

  /** @param {boolean} open */
  #open(open) {
    this.panel.hidden = !open;
    this.#draw();
  }

  #leave() {
    this.#open(false);
    this.button.focus({ preventScroll: true });
  }

  #draw() {
    const own = this.#own;
    fill(this.button, own ? "✓ Recomputed" : "Recompute here");
    this.button.setAttribute("aria-expanded", `${!this.panel.hidden}`);
    if (this.panel.hidden || this.#fetching) return;
    fill(this.#state, ...(own ? this.#done(own) : this.#offer()));
  }

  #offer() {
    const before = this.#api.own;
    const failed = this.#failed?.asOf === this.#asOf ? this.#failed.error : undefined;
    const markets = this.#api.shown?.counts.markets ?? 0;
    const bytes = leastBytes + columnBytes * markets;
    return [
      failed !== undefined && [
        failure(failed),
        html(
          "p",
          {},
          html("strong", {}, "No number of this page is verified. "),
          "Those that it shows are the service’s word.",
        ),
      ],
      html(
        "p",
        {},
        "This page can count for itself. It fetches the columns of the archive’s index, checks every byte of them " +
          "against the root that the log’s entry of this snapshot names, and from then on evaluates filters and " +
          "brushes in this browser, without asking the service for a number.",
      ),
      html(
        "p",
        {},
        `It takes about ${size(bytes)} and ${counted(3 + Math.ceil(bytes / unitBytes), "request")} of the day’s ` +
          "quota. " +
          (before ? "Of that, only what changed since the snapshot before is fetched. " : "") +
          `The first search for words takes about ${size(leastBytes + wordBytes * markets)} more, and each list of ` +
          "markets a request more.",
      ),
      html(
        "form",
        { class: "verify", onsubmit: (event) => this.#start(event), novalidate: true },
        html(
          "label",
          { for: "trust" },
          "Publisher’s key or policy, or the hash of the log’s entry, if you have it",
        ),
        html(
          "div",
          { class: "joined" },
          this.#key,
          html("button", { type: "submit" }, "Fetch and recompute"),
        ),
        this.#problem,
      ),
    ].flat();
  }

  /** @param {Event} event */
  async #start(event) {
    event.preventDefault();
    fill(this.#problem);
    this.#key.removeAttribute("aria-invalid");
    const trust = trustIn(this.#key.value);
    if (!trust) {
      this.#key.setAttribute("aria-invalid", "true");
      const words =
        "A key is NAME+ID+BASE64, a policy is the text of its file, and a hash has 64 hexadecimal digits.";
      fill(this.#problem, failure(new Error(words)));
      return this.#key.focus();
    }
    this.#fetching = new AbortController();
    const { signal } = this.#fetching;
    const asOf = this.#asOf;
    this.#failed = undefined;
    const said = html("span", {}, "Asking which index there is…");
    const cancel = plain("Cancel", () => this.close());
    fill(this.#state, html("p", { role: "status" }, said, " ", cancel));
    cancel.focus();
    const { bytes } = this.#api.fetched;
    this.#api.onfetched = () =>
      fill(said, `Fetching and checking: ${size(this.#api.fetched.bytes - bytes)}…`);
    try {
      if (!crypto.subtle) throw new Error("Browsers verify on secure origins only: use https.");
      const by = [...labels, ...scores, "month"];
      const first = await this.#api.service.recompute({ by, asOf, trust, signal });
      this.#api.own = { asOf, trust, first };
    } catch (error) {
      if (!signal.aborted) this.#failed = { asOf, error };
    }
    this.#fetching = undefined;
    const focused = document.activeElement === cancel || document.activeElement === document.body;
    this.#draw();
    if (focused) this.button.focus({ preventScroll: true });
    if (this.#own) this.#changed();
  }

  /** @param {Own} own */
  #done({ first: { snapshotId, commit, vouched } }) {
    const { by, checkpoint, entry, publishedAt } = vouched;
    const fetched = html("span");
    const tell = () => {
      const { bytes, requests } = this.#api.fetched;
      fill(fetched, `${size(bytes)} in ${counted(requests, "request")}`);
    };
    this.#api.onfetched = tell;
    tell();
    return [
      html(
        "p",
        { role: "status" },
        html("strong", {}, "✓ Recomputed. "),
        "Totals, counts and charts with a ✓ were counted in this browser. Filters and brushes ask the service for " +
          "none of them, only for the markets to list.",
      ),
      html(
        "div",
        { class: "cards" },
        html(
          "section",
          {},
          facts([
            ["Fetched", fetched],
            ["Vouched for by", voucher(vouched)],
            ["Published", minutes(publishedAt)],
            [
              "Snapshot",
              [html("code", { title: snapshotId }, snapshotId.slice(0, 12)), `, commit ${grouped(commit)}`],
            ],
            ["Entry of the log", html("code", {}, entry)],
          ]),
        ),
        told("What was checked", [
          [
            "Every byte that was counted, also of what this browser had kept: by SHA-256, against the index root " +
              "that the entry of the log names.",
          ],
          [
            "That this entry is about this snapshot",
            checkpoint !== null &&
              `, and that the log ${checkpoint.origin} has it, of ${counted(checkpoint.size, "commit")}`,
            ".",
          ],
          by.length > 0 && [`That it is what you trust, by ${voucher(vouched)}.`],
          [
            "That the markets listed are those that match, in order and none left out, by the hashes of their records.",
          ],
        ]),
        told("What was not", [
          by.length === 0 && [
            checkpoint === null
              ? "Who published it: nobody signed the log."
              : "Who published it: the log is signed, but you entered no key, so its signatures were not checked " +
                "against a key that does not come from this service.",
          ],
          checkpoint !== null &&
            commit < checkpoint.size && [
              `Whether this snapshot still counts: it is commit ${grouped(commit)}, and the log goes on to commit ` +
                `${grouped(checkpoint.size)}.`,
            ],
          [
            "This page: its code comes from the service that it checks. A dishonest service could send code that " +
              "says all this too. ",
            html("code", {}, "npm run ask"),
            " and the client in a program of your own do not depend on it, with a key that you have from elsewhere.",
          ],
          [
            "In a search for words, which characters belong to a word: that depends on the version of Unicode, and a " +
              "browser does not tell its own.",
          ],
          [
            "Whether the index says of a market what its record says: ",
            html("code", {}, "npm run snapshot -- verify"),
            " and ",
            html("code", {}, "npm run sync"),
            " check that of all records.",
          ],
        ]),
      ),
      html(
        "p",
        { class: "pages" },
        plain("Close", () => this.#leave()),
        plain("Show the service’s numbers again", () => {
          this.#api.own = undefined;
          this.#leave();
          this.#changed();
        }),
      ),
    ];
  }
}

/**
 * @param {string} text
 * @param {() => void} onclick
 */
const plain = (text, onclick) => html("button", { type: "button", class: "plain", onclick }, text);

/**
 * @param {string} title
 * @param {(Child[] | false)[]} lines
 */
const told = (title, lines) =>
  html(
    "section",
    {},
    html("h2", {}, title),
    html(
      "ul",
      {},
      lines.map((line) => line && html("li", {}, ...line)),
    ),
  );

/**
 * What a reader entered to check against, or undefined when it is nothing of the kind.
 * @param {string} text
 * @returns {Trust | undefined}
 */
function trustIn(text) {
  const given = text.trim();
  if (given === "") return {};
  if (/^[0-9a-f]{64}$/.test(given)) return { entry: given };
  return /^[^\s+]+\+[0-9a-f]{8}\+\S+$/.test(given) || /\s/.test(given) ? { key: given } : undefined;
}

/**
 * Who says that the entry of the log is the publisher's.
 * @param {Recomputed["vouched"]} vouched
 */
function voucher({ by, checkpoint }) {
  if (by.includes("policy"))
    return `a log’s key of your policy, and ${counted(checkpoint?.cosigners ?? 0, "witness", "witnesses")} of it`;
  if (by.includes("key")) return "the signature of the key that you entered";
  if (by.includes("entry")) return "the hash that you entered";
  return "nobody but the service";
}
