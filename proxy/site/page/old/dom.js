/** @import { ApiError } from "../../client/client.ts" */

/**
 * A child of an element. Strings become text nodes, never HTML.
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * Attributes by name. A function becomes a listener: `onclick` listens to clicks. False and undefined leave the
 * attribute out, true makes it empty. Do not use `style`: the page's Content-Security-Policy forbids it.
 * @typedef {Record<string, string | number | boolean | undefined | ((event: Event) => void)>} Attributes
 */

/**
 * Creates an HTML element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function html(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children.flat());
}

/**
 * Creates an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children.flat());
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {E}
 */
function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice("on".length), value);
    else if (value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : `${value}`);
  }
  element.append(...present(children));
  return element;
}

/**
 * Replaces all children of an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...present(children.flat()));
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  return children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : `${child}`));
}

/**
 * The element of index.html with this id. Throws Error when there is none.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function part(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * A link that only the keyboard finds, over all that comes before an element.
 * @param {string} text
 * @param {HTMLElement} target
 */
export function skipTo(text, target) {
  target.setAttribute("tabindex", "-1");
  const skip = (/** @type {Event} */ event) => {
    // Following the link would replace the view's address behind the #.
    event.preventDefault();
    target.focus();
  };
  return html("a", { class: "skip", href: "#main", onclick: skip }, text);
}

/**
 * A list of terms with values.
 * @param {[term: Child, value: Child | Child[]][]} rows
 */
export function facts(rows) {
  return html(
    "dl",
    { class: "facts" },
    rows.map(([term, value]) => html("div", {}, html("dt", {}, term), html("dd", {}, ...[value].flat()))),
  );
}

/**
 * A text to copy, with a button that does it.
 * @param {string} name
 * @param {string} text
 */
export function copyable(name, text) {
  const code = html(
    "code",
    { tabindex: "0", role: "textbox", "aria-readonly": "true", "aria-label": name },
    text,
  );
  const button = html("button", { type: "button", class: "plain" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      fill(button, "Copied");
    } catch {
      // Pages without a secure origin have no clipboard; the reader's own shortcut works.
      getSelection()?.selectAllChildren(code);
    }
  });
  return html("div", { class: "copyable" }, code, button);
}

/** What trying again does not change. */
const lasting = /^INVALID|_(?:NOT_FOUND|REQUIRED)$/;

/**
 * An error message, which screen readers read out at once. With `again` it has a button that tries again, where that may
 * help.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function failure(error, again) {
  const {
    title = "Something went wrong",
    message = "",
    code = "",
  } = error instanceof Error ? /** @type {Partial<ApiError>} */ (error) : {};
  const retry = () => {
    // The button goes away with the message.
    part("main").focus({ preventScroll: true });
    again?.();
  };
  return html(
    "div",
    { class: "failure", role: "alert" },
    html("strong", {}, title),
    " ",
    forReaders(message),
    again &&
      !lasting.test(code) && [
        " ",
        html("button", { type: "button", class: "plain", onclick: retry }, "Try again"),
      ],
  );
}

/**
 * What the service says to programs, for readers: without its requests, and with times and plans as the page spells
 * them.
 * @param {string} message
 */
const forReaders = (message) =>
  message
    .replaceAll(/\basOf\b/g, "An earlier state")
    .replace("of this slug", "of this name")
    .replaceAll(/[;,.] (?:[^.;]* )?(?:GET|POST) \/\S*[^.;]*/g, "")
    .replaceAll(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z/g, "$1 $2 UTC")
    .replaceAll(
      /\b(free|developer|aegis) plan\b(?:'s)?/g,
      (words) => `${words.charAt(0).toUpperCase()}${words.slice(1).replace("'", "’")}`,
    );

/**
 * @import { Api } from "../api.ts"
 * @import { Route } from "../route.ts"
 */
/** @import { Store } from "../state.ts" */
/** @typedef {{ api: Api, store: Store, askForKey: () => void }} Site */
/** @typedef {{ title: string, element: HTMLElement, close: () => void, update?: (route: Route) => void }} View */
