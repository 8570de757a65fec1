/**
 * What stands in an element: text is inserted as text, whatever it holds.
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * Attributes by name; a function listens to the event of its name, `onclick` to clicks. False and undefined ones are
 * left out, true ones are empty. There is no style among them: the page's policy forbids it.
 * @typedef {Record<string, string | number | boolean | undefined | ((event: Event) => void)>} Attributes
 */

/**
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
 * Puts these in the place of all that an element held.
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
 * The element of this id, which index.html has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function part(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * A link to another site: only http and https, in a tab of its own, since leaving this page forgets the key. Any other
 * address is shown as text.
 * @param {string} address
 * @param {string} [label]
 */
export function outsideLink(address, label = address) {
  const protocol = URL.canParse(address) ? new URL(address).protocol : "";
  if (protocol !== "https:" && protocol !== "http:") return html("span", {}, label);
  return html("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, label);
}

/**
 * A list of terms and what is to say of each, with a note where it needs one.
 * @param {[term: string, value: Child, note?: string][]} rows
 */
export function facts(rows) {
  return html(
    "dl",
    { class: "facts" },
    rows.map(([term, value, note]) =>
      html(
        "div",
        {},
        html("dt", {}, term),
        html("dd", {}, value),
        note !== undefined && html("dd", { class: "note quiet" }, note),
      ),
    ),
  );
}

/**
 * What numbers mean, under the names by which a view shows them.
 * @param {[term: string, meaning: string][]} rows
 */
export function meaningsOf(rows) {
  return html(
    "dl",
    { class: "meanings quiet" },
    rows.map(([term, meaning]) => html("div", {}, html("dt", {}, term), html("dd", {}, meaning))),
  );
}

/**
 * What went wrong, where it concerns; read out at once.
 * @param {unknown} error
 */
export function failure(error) {
  const { title = "Something went wrong", message = "" } = error instanceof Error ? titled(error) : {};
  return html("div", { class: "failure", role: "alert" }, html("strong", {}, title), " ", message);
}

/**
 * @param {Error & { title?: string }} error
 * @returns {{ title?: string, message: string }}
 */
function titled({ title, message }) {
  return title === undefined ? { message } : { title, message };
}
