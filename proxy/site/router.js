import { fill, part } from "./dom.js";

/**
 * The view that the address selects. It stands behind the `#`, so that any static file server can serve the site.
 * @typedef {{ name: "scores" | "archive", query: URLSearchParams } | { name: "protocol", slug: string, query: URLSearchParams } | { name: "compare", slugs: string[] } | { name: "meanings", key?: string } |
 *   { name: "market", id: string, query: URLSearchParams } | { name: "nowhere" }} Route
 */

/**
 * The current view. `update`, if present, shows another route of the same name without recreating the view. `close`
 * aborts its pending requests.
 * @typedef {{ title: string, element: HTMLElement, close: () => void, update?: (route: Route) => void }} View
 */

/**
 * Parses the part of the address from the `#` on.
 * @param {string} hash
 * @returns {Route}
 */
export function routeOf(hash) {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const query = new URLSearchParams(search);
  if (path === "" || path === "/") return { name: "scores", query };
  if (path === "/archive") return { name: "archive", query };
  // The patterns of MarketId and ProtocolSlug. Any other text could change the path of the request to the service.
  const id = /^\/markets\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(path)?.[1];
  if (id !== undefined) return { name: "market", id, query };
  const slugs = /^\/compare\/((?:[a-z0-9][a-z0-9._-]{0,99}(?:,|$))*)$/.exec(path)?.[1];
  if (slugs !== undefined) return { name: "compare", slugs: [...new Set(slugs.split(",").filter(Boolean))] };
  const [meaning, key] = /^\/meanings(?:\/([a-z_]+))?$/.exec(path) ?? [];
  if (meaning !== undefined) return { name: "meanings", ...(key !== undefined && { key }) };
  const slug = /^\/protocols\/([a-z0-9][a-z0-9._-]{0,99})$/.exec(path)?.[1];
  return slug === undefined ? { name: "nowhere" } : { name: "protocol", slug, query };
}

/**
 * Shows the view for the current address, and a new one whenever that changes. Then the new view's heading gets the
 * focus.
 * @param {(route: Route) => View} open
 * @param {(route: Route) => void} shown
 * @returns {{ again: () => void }} `again` recreates the view without moving the focus
 */
export function startRouter(open, shown) {
  const main = part("main");
  /** @type {{ route: Route, view: View } | undefined} */
  let current;
  const places = keepPlaces(main);

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
    if (!places.enter()) window.scrollTo(0, 0);
    const heading = view.element.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }

  window.addEventListener("hashchange", () => {
    const route = routeOf(location.hash);
    if (current?.view.update && current.route.name === route.name) {
      current.view.update(route);
      places.enter();
    } else show(true);
  });
  show(false);
  return { again: () => show(false) };
}

/**
 * Keeps how far the reader had scrolled at each entry of the history: what an entry shows is loaded only after the
 * browser would have gone back there.
 * @param {HTMLElement} main
 * @returns {{ enter: () => boolean }} `enter` goes to the place of the entry shown from now on, if it has one
 */
function keepPlaces(main) {
  history.scrollRestoration = "manual";
  /** @type {Map<number, number>} */
  const places = new Map();
  let here = 0;
  let wanted = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let giving;
  const leave = () => {
    wanted = 0;
  };
  // Until so much is loaded that it can be reached, and nothing above it moves it away.
  const reach = () => {
    if (wanted === 0) return;
    window.scrollTo(0, wanted);
    if (scrollY >= wanted - 1 && !main.querySelector("[aria-busy]")) leave();
  };
  new ResizeObserver(reach).observe(main);
  for (const how of ["wheel", "touchstart", "keydown", "pointerdown"])
    window.addEventListener(how, leave, { passive: true });
  window.addEventListener(
    "scroll",
    () => {
      if (wanted === 0) places.set(here, scrollY);
      else reach();
    },
    { passive: true },
  );
  const name = () => {
    here = history.state?.place ?? Date.now();
    if (!places.has(here)) places.set(here, 0);
    history.replaceState({ place: here }, "");
  };
  name();
  return {
    enter() {
      const known = places.get(history.state?.place);
      name();
      if (known === undefined) {
        places.set(here, scrollY);
        return false;
      }
      wanted = known;
      clearTimeout(giving);
      giving = setTimeout(leave, 10_000);
      if (known === 0) window.scrollTo(0, 0);
      reach();
      return true;
    },
  };
}
