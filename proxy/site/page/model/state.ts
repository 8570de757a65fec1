import type { Status } from "../../../../schemas/envelopes.ts";
import type { Recomputed, Trust, Usage } from "../../client/client.ts";
import type { Route } from "./route.ts";

/** Requests left today; `reset` in epoch seconds. */
export interface Quota {
  limit: number;
  remaining: number;
  reset: number;
}

/** What this browser recomputes the numbers of a snapshot from. `first` tells what was checked. */
export interface Own {
  asOf: string;
  trust: Trust;
  first: Recomputed;
}

/** What the page knows beside what its views load. The address mirrors the route; the key is in `Api` alone. */
export interface State {
  route: Route;
  /** Grows whenever all that is shown is to be asked for anew: with another key, or for a newer snapshot. */
  round: number;
  plan: Usage["plan"];
  keyed: boolean;
  quota: Quota | undefined;
  /** The snapshot that is served. */
  newest: Status | undefined;
  /** The snapshot that the page shows, and goes on showing while it can be read. */
  shown: Status | undefined;
  /** Set once the reader wants the archive's numbers recomputed. */
  own: Own | undefined;
  /** What came of the archive's index so far. */
  fetched: { bytes: number; requests: number };
  /** The scores and the archive as they were looked at last, by their addresses. */
  last: { scores: string; archive: string };
  /** Whether the form for a key, and the list of places, are open. */
  asksForKey: boolean;
  jumps: boolean;
}

/** Holds the state of the page, and tells of its changes. */
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
