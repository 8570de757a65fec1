import type { Store } from "./store.ts";

/**
 * The view that the address selects. It stands behind the `#`, so that any static file server can serve the site.
 */
export type Route =
  | { name: "scores" | "archive"; query: URLSearchParams }
  | { name: "protocol"; slug: string; query: URLSearchParams }
  | { name: "compare"; slugs: string[] }
  | { name: "market"; id: string; query: URLSearchParams }
  | { name: "meanings"; key?: string }
  | { name: "dimension"; key: string }
  | { name: "week" | "nowhere" };

/** Parses the part of the address from the `#` on. */
export function routeOf(hash: string): Route {
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
  const dimension = /^\/dimensions\/([a-z_]+)$/.exec(path)?.[1];
  if (dimension !== undefined) return { name: "dimension", key: dimension };
  if (path === "/week") return { name: "week" };
  const slug = /^\/protocols\/([a-z0-9][a-z0-9._-]{0,99})$/.exec(path)?.[1];
  return slug === undefined ? { name: "nowhere" } : { name: "protocol", slug, query };
}

/** Two addresses with the same key are one view, which stays when the address changes from one to the other. */
export function keyOf(route: Route): string {
  if (route.name === "scores" || route.name === "archive") return route.name;
  const { query, ...others } = { query: "", ...route };
  return JSON.stringify({ ...others, query: `${query}` });
}

/** Shows an address in place of the present one: the history has one entry for both. */
export function replaceAddress(store: Store, address: string): void {
  history.replaceState(history.state, "", address);
  store.set({ route: routeOf(address) });
}

/** Shows an address, with an entry of its own in the history. */
export function go(address: string): void {
  location.hash = address;
}

/** Follows the address from now on. */
export function startRouter(store: Store): void {
  window.addEventListener("hashchange", () => {
    const route = routeOf(location.hash);
    // Scores come from whichever snapshot is served, and only the archive stays with one.
    const pinned = route.name === "archive" || route.name === "market";
    store.set({ route, ...(!pinned && { shown: undefined }) });
  });
}

/**
 * Keeps how far the reader had scrolled at each entry of the history: what an entry shows is loaded only after the
 * browser would have gone back there.
 */
export function keepPlaces(main: HTMLElement): { enter: () => boolean } {
  history.scrollRestoration = "manual";
  const places: Map<number, number> = new Map();
  let here = 0;
  let wanted = 0;
  let giving: ReturnType<typeof setTimeout> | undefined;
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
      // The address was replaced within the entry.
      if (history.state?.place === here) return true;
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
