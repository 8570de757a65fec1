import { routeOf } from "./route.ts";
import type { Store } from "./state.ts";

/** Shows what an address selects, and notes it as the last scores or archive address. */
function show(store: Store, address: string): void {
  const route = routeOf(address);
  const { last, shown } = store.state;
  const isList = route.name === "scores" || route.name === "archive";
  // Scores come from whichever snapshot is served, and only the archive stays with one.
  const isPinned = route.name === "archive" || route.name === "market";
  store.set({
    route,
    last: isList ? { ...last, [route.name]: address || "#/" } : last,
    shown: isPinned ? shown : undefined,
  });
}

/** Shows an address in place of the present one: the history has one entry for both. */
export function replaceAddress(store: Store, address: string): void {
  history.replaceState(history.state, "", address);
  show(store, address);
}

/** Shows an address, with an entry of its own in the history. */
export function go(address: string): void {
  location.hash = address;
}

export function startRouter(store: Store): void {
  show(store, location.hash);
  window.addEventListener("hashchange", () => show(store, location.hash));
}

/**
 * Keeps the scroll position of each entry of the history. The browser's own restoration would come before the entry's
 * content is loaded.
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
  // Scrolls again until enough is loaded to reach the position, and nothing above can still move it away.
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
