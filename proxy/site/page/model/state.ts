import type { Status } from "../../../../schemas/envelopes.ts";
import type { Recomputed, Trust, Usage } from "../../client/client.ts";
import type { Route } from "./route.ts";

/** Requests left today; `reset` in epoch seconds. */
export interface Quota {
  limit: number;
  remaining: number;
  reset: number;
}

/** The basis on which this browser recomputes the numbers of a snapshot. `first` tells what was checked. */
export interface Own {
  asOf: string;
  trust: Trust;
  first: Recomputed;
}

/** The state of the page, besides what its views load. The route mirrors the address; the key is in `Api` alone. */
export interface State {
  route: Route;
  /** Grows whenever everything shown has to be loaded anew: with another key, or for a newer snapshot. */
  round: number;
  plan: Usage["plan"];
  keyed: boolean;
  quota: Quota | undefined;
  newest: Status | undefined;
  /** The snapshot that the page shows, and goes on showing while it can be read. */
  shown: Status | undefined;
  /** Set once the reader wants the archive's numbers recomputed. */
  own: Own | undefined;
  /** How much of the archive's index was fetched so far. */
  fetched: { bytes: number; requests: number };
  /** The addresses of the scores and the archive as they were last looked at. */
  last: { scores: string; archive: string };
  /** Whether the form for a key is open, and whether the list of places is. */
  asksForKey: boolean;
  jumps: boolean;
}

/** Holds the state of the page, and notifies watchers of changes. */
export class Store {
  state: State;
  #watchers = new Set<() => void>();

  constructor(route: Route) {
    this.state = {
      route,
      round: 0,
      plan: "free",
      keyed: false,
      quota: undefined,
      newest: undefined,
      shown: undefined,
      own: undefined,
      fetched: { bytes: 0, requests: 0 },
      last: { scores: "#/", archive: "#/archive" },
      asksForKey: false,
      jumps: false,
    };
  }

  set(changes: Partial<State>): void {
    this.state = { ...this.state, ...changes };
    for (const watcher of this.#watchers) watcher();
  }

  /** Shows everything anew. */
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
