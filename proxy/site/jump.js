import { foldCase, nameOf } from "../../schemas/names.ts";
import { fill, html } from "./dom.js";
import { archiveAddress } from "./filters.js";
import { tiers } from "./words.js";

/** @import { Api } from "./api.js" */

/** @typedef {[text: string, href: string]} Place */

const shown = 12;

const archive = (/** @type {Record<string, string>} */ query) => archiveAddress(new URLSearchParams(query));

/** @type {readonly Place[]} */
const fixed = [
  ["Scores", "#/"],
  ["Archive", archive({})],
  ["Archive: Do scores mean something?", archive({ show: "score" })],
  ["Archive: Download", archive({ show: "file" })],
  ["What the numbers mean", "#/meanings"],
  ["Disputed markets", archive({ disputed: "true" })],
  ...tiers.map((tier) => /** @type {Place} */ ([`Markets of tier ${tier}`, archive({ tier })])),
];

/**
 * Ctrl+K opens a list of places: views, protocols, filters of the archive, and the search for words. So does what is
 * returned.
 * @param {Api} api
 */
export function startJumping(api) {
  /** @type {readonly Place[]} */
  let protocols = [];
  let asking = false;
  const name = "Go to a protocol, view or filter, or search for words";
  const field = html("input", {
    type: "text",
    dir: "auto",
    "aria-label": name,
    placeholder: name,
    oninput: draw,
  });
  const list = html("ul");
  const dialog = html("dialog", { class: "jump", "aria-label": "Go to", onkeydown: move }, field, list);
  document.body.append(dialog);

  function draw() {
    const q = field.value.trim();
    const found = [...fixed, ...protocols].filter(([text]) => foldCase(text).includes(foldCase(q)));
    /** @type {Place[]} */
    const places = [
      ...found.slice(0, shown),
      ...(q ? [/** @type {Place} */ ([`Search the archive for “${q}”`, archive({ q })])] : []),
    ];
    const close = () => dialog.close();
    fill(
      list,
      ...places.map(([text, href]) => html("li", {}, html("a", { href, dir: "auto", onclick: close }, text))),
    );
  }

  /** @param {Event} event */
  function move(event) {
    const { key } = /** @type {KeyboardEvent} */ (event);
    const stops = [field, ...list.querySelectorAll("a")];
    const at = stops.indexOf(/** @type {HTMLInputElement} */ (document.activeElement));
    const to = key === "ArrowDown" ? at + 1 : key === "ArrowUp" ? at - 1 : -1;
    if (key === "Enter" && at === 0) stops[1]?.click();
    else if (stops[to]) stops[to].focus();
    else return;
    event.preventDefault();
  }

  async function load() {
    asking = true;
    try {
      const { scores } = await api.scores.scores();
      protocols = scores.map(({ slug }) => [nameOf(slug), `#/protocols/${slug}`]);
      draw();
    } catch {
      // Without protocols the other places are still of use. The next opening asks again.
    }
    asking = false;
  }

  function open() {
    field.value = "";
    dialog.showModal();
    draw();
    if (protocols.length === 0 && !asking) load();
  }

  window.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  return open;
}
