import { failure, fill, html } from "./dom.js";
import { grouped } from "./words.js";

/** @import { Api } from "./api.js" */

/** @type {Record<Api["plan"], string>} */
export const planNames = { free: "Free", developer: "Developer", aegis: "Aegis" };

/**
 * The strip that shows plan and quota, and lets the reader enter a key and forget it again.
 * @param {HTMLElement} panel
 * @param {Api} api
 * @param {() => void} changed called after the key was entered or forgotten
 * @returns {{ ask: () => void }} `ask` opens the form and focuses its field
 */
export function accessStrip(panel, api, changed) {
  if (!api.live) {
    const why =
      "This copy of the site has only files. It shows the scores; history and archive need the service.";
    fill(panel, html("p", { class: "quiet" }, why));
    return { ask: () => {} };
  }
  const standing = html("p", { class: "standing" });
  const problem = html("div", { id: "key-problem" });
  const field = html("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "key-problem key-note",
  });
  const button = html("button", { type: "submit" }, "Use key");
  const form = html(
    "form",
    { id: "key-form", autocomplete: "off", novalidate: true, onsubmit: submit },
    html("label", { for: "key" }, "API key"),
    html("div", { class: "joined" }, field, button),
    html(
      "p",
      { id: "key-note", class: "quiet" },
      "Kept in this page’s memory until you leave it, and stored nowhere.",
    ),
    problem,
  );
  const entry = html("details", { class: "key" }, html("summary", {}, "Enter an API key"), form);
  const forget = html("button", { type: "button", class: "plain", onclick: drop }, "Forget key");
  fill(panel, html("div", { class: "access" }, standing, entry, forget));
  api.onquota = () => {
    const { quota, plan } = api;
    fill(
      standing,
      html("strong", {}, `${planNames[plan]} plan`),
      quota && [
        ` · ${grouped(quota.remaining)} of ${grouped(quota.limit)} `,
        html("a", { href: "#/meanings/requests" }, "requests"),
        " left today",
      ],
    );
    entry.hidden = api.keyed;
    forget.hidden = !api.keyed;
  };
  api.onquota();

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    const key = field.value.trim();
    field.value = "";
    field.removeAttribute("aria-invalid");
    fill(problem);
    if (key === "") return refuse(new Error("Enter a key first."));
    button.disabled = true;
    try {
      await api.useKey(key);
      entry.open = false;
      forget.focus();
      changed();
    } catch (error) {
      refuse(error);
    } finally {
      button.disabled = false;
    }
  }

  /** @param {unknown} error */
  function refuse(error) {
    field.setAttribute("aria-invalid", "true");
    fill(problem, failure(error));
    field.focus();
  }

  function drop() {
    api.forgetKey();
    changed();
    entry.querySelector("summary")?.focus();
  }

  return {
    ask() {
      entry.open = true;
      field.focus();
    },
  };
}
