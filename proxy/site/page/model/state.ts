import type { Status } from "../../../../schemas/envelopes.ts";
import type { Recomputed, Trust, Usage } from "../../client/client.ts";

/** The state of the page, besides what its views load. The route mirrors the address; the key is in `Api` alone. */
export interface State {
  route: Route;
  /** Grows whenever everything shown has to be loaded anew: with another key, or for a newer snapshot. */
  round: number;
  plan: Usage["plan"];
  quota: Omit<Usage, "plan"> | undefined;
  newest: Status | undefined;
  /** The snapshot that the page shows, and goes on showing while it can be read. */
  shown: Status | undefined;
  /**
   * The basis on which this browser recomputes the numbers of a snapshot, once the reader wants that. `first` tells
   * what was checked.
   */
  own: { asOf: string; trust: Trust; first: Recomputed } | undefined;
  /** How much of the archive's index was fetched so far. */
  fetched: { bytes: number; requests: number };
  /** The addresses of the scores and the archive as they were last looked at. */
  last: { scores: string; archive: string };
  /** Whether the form for a key is open, and whether the list of places is. */
  asksForKey: boolean;
  jumps: boolean;
}

/** Whether the page has a key: none is of the free plan. */
export const isKeyed = ({ plan }: Pick<State, "plan">) => plan !== "free";

/** Holds the state of the page, and notifies watchers of changes. */
export class Store {
  state: State = {
    route: routeOf(location.hash),
    round: 0,
    plan: "free",
    quota: undefined,
    newest: undefined,
    shown: undefined,
    own: undefined,
    fetched: { bytes: 0, requests: 0 },
    last: { scores: "#/", archive: "#/archive" },
    asksForKey: false,
    jumps: false,
  };
  #watchers = new Set<() => void>();

  set(changes: Partial<State>): void {
    this.state = { ...this.state, ...changes };
    for (const watcher of this.#watchers) watcher();
  }

  again(changes: Partial<State> = {}): void {
    this.set({ ...changes, round: this.state.round + 1 });
  }

  /** Calls `watcher` after every change until the returned function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}

/**
 * The view that the address selects. It is in the part behind the `#`, so that any static file server can serve the
 * site.
 */
export interface Route {
  name: keyof typeof paths | "nowhere";
  /** What the path names: a protocol, or several with commas between them, a market, a dimension. */
  key: string;
  query: URLSearchParams;
}

/** The ids are by the patterns of MarketId and ProtocolSlug. Any other text could change the path of a request. */
const paths = {
  scores: /^\/?$/,
  archive: /^\/archive$/,
  market: /^\/markets\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/,
  protocol: /^\/protocols\/([a-z0-9][a-z0-9._-]{0,99})$/,
  compare: /^\/compare\/((?:[a-z0-9][a-z0-9._-]{0,99}(?:,|$))*)$/,
  meanings: /^\/meanings(?:\/([a-z_]+))?$/,
  dimension: /^\/dimensions\/([a-z_]+)$/,
  week: /^\/week$/,
};

/** Parses the part of the address from the `#` on. */
export function routeOf(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const names = Object.keys(paths) as (keyof typeof paths)[];
  const name = names.find((each) => paths[each].test(path));
  const key = (name && paths[name].exec(path)?.[1]) ?? "";
  return { name: name ?? "nowhere", key, query: new URLSearchParams(search) };
}

/** Addresses with the same key are one view, which stays when the address changes from one to the other. */
export const keyOf = ({ name, key, query }: Route) =>
  name === "scores" || name === "archive" ? name : `${name} ${key}?${query}`;

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

/** The option of a request that names a snapshot; none for the present one. */
export const asOfOption = (asOf: string | null) => (asOf === null ? {} : { asOf });

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
