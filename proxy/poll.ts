import { within } from "../snapshots/deadline.ts";

/** Something that is done again and again; `name` is for the log. */
export interface Chore {
  name: string;
  run: () => Promise<void>;
}

/** Chores that are done again and again. */
export interface Poller {
  /** Does each once, side by side; never throws. */
  once(): Promise<void>;
  /** Does each again and again, from `seconds` after this moment on. */
  start(seconds: number): void;
  stop(): void;
  /** By chore: seconds since it succeeded last, or since the poller was made. */
  ages(): Map<string, number>;
}

/**
 * Chores that do not wait for each other, each never beside its own last round. `done` hears of every round, with the
 * error of one that failed or did not end within `roundSeconds`. A round that goes on beyond that is not begun anew until it
 * ends, since all it can hang in is a call of the kernel, and each takes up one of the process's few threads.
 */
export function createPoller(
  chores: readonly Chore[],
  options: {
    roundSeconds: number;
    /** Epoch milliseconds. */
    now: () => number;
    done: (chore: string, error?: unknown) => void;
  },
): Poller {
  const { roundSeconds, now, done } = options;
  const states = chores.map((chore) => ({ ...chore, succeeded: now(), underway: false }));
  type State = (typeof states)[number];
  const timers = new Map<State, NodeJS.Timeout>();
  let stopped = false;

  async function run(state: State): Promise<void> {
    state.underway = true;
    try {
      await state.run();
      state.succeeded = now();
    } finally {
      state.underway = false;
    }
  }

  async function round(state: State): Promise<void> {
    try {
      if (state.underway) throw new Error("the round before has not ended");
      await within(roundSeconds, () => run(state));
      done(state.name);
    } catch (error) {
      done(state.name, error);
    }
  }

  function schedule(state: State, seconds: number): void {
    const next = () => round(state).finally(() => stopped || schedule(state, seconds));
    timers.set(state, setTimeout(next, seconds * 1000).unref());
  }

  return {
    async once() {
      await Promise.all(states.map(round));
    },
    start(seconds) {
      for (const state of states) schedule(state, seconds);
    },
    stop() {
      stopped = true;
      for (const timer of timers.values()) clearTimeout(timer);
    },
    ages: () => new Map(states.map(({ name, succeeded }) => [name, Math.max(0, (now() - succeeded) / 1000)])),
  };
}
