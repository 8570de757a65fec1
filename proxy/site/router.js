import { fill, part } from "./dom.js";

/**
 * What the address behind the `#` asks for. Behind it, so that any server of files will do.
 * @typedef {{ name: "scores", query: URLSearchParams } | { name: "protocol", slug: string } | { name: "archive", query: URLSearchParams } |
 *   { name: "nowhere" }} Route
 */

/**
 * A view that is shown. `update` takes another route of the same name, if it can, without being made anew; `close` ends
 * all that it still waits for.
 * @typedef {{ title: string, element: HTMLElement, close: () => void, update?: (route: Route) => void }} View
 */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function routeOf(hash) {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const query = new URLSearchParams(search);
  if (path === "" || path === "/") return { name: "scores", query };
  if (path === "/archive") return { name: "archive", query };
  // As ProtocolSlug has it; anything else would be another address of the service.
  const slug = /^\/protocols\/([a-z0-9][a-z0-9._-]{0,99})$/.exec(path)?.[1];
  return slug === undefined ? { name: "nowhere" } : { name: "protocol", slug };
}

/**
 * Shows the view of the address, now and whenever it changes, and moves the focus to its heading.
 * @param {(route: Route) => View} open
 * @param {(route: Route) => void} shown
 * @returns {{ again: () => void }} `again` makes the view anew, leaving the focus alone
 */
export function startRouter(open, shown) {
  const main = part("main");
  /** @type {{ route: Route, view: View } | undefined} */
  let current;

  /** @param {boolean} moveFocus */
  function show(moveFocus) {
    const route = routeOf(location.hash);
    current?.view.close();
    const view = open(route);
    current = { route, view };
    document.title = `${view.title} · Protocol Risk Scores`;
    fill(main, view.element);
    shown(route);
    if (!moveFocus) return;
    window.scrollTo(0, 0);
    const heading = view.element.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }

  window.addEventListener("hashchange", () => {
    const route = routeOf(location.hash);
    if (current?.view.update && current.route.name === route.name) current.view.update(route);
    else show(true);
  });
  show(false);
  return { again: () => show(false) };
}
