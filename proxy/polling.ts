import { setTimeout as delay } from "node:timers/promises";
import { within } from "../snapshots/store/deadline.ts";

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
  /** Seconds since the chore succeeded that has not for longest; one that never has counts from the poller's making. */
  age(): number;
}

/**
 * Chores that do not wait for each other, each never beside its own last round. `done` hears of every round, with the
 * error of one that failed or did not end within `roundSeconds`. A round that goes on beyond that is not begun anew until it
 * ends, since all it can hang in is a call of the kernel, and each takes up one of the process's few threads.
 */
export function createPoller(
  chores: readonly Chore[],
  roundSeconds: number,
  now: () => number,
  done: (chore: string, error?: unknown) => void,
): Poller {
  const states = chores.map((chore) => ({ ...chore, succeeded: now(), underway: false }));
  type State = (typeof states)[number];
  let stopped = false;

  async function run(state: State): Promise<void> {
    state.underway = true;
    await state.run().finally(() => {
      state.underway = false;
    });
    state.succeeded = now();
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

  async function repeat(state: State, seconds: number): Promise<void> {
    while (!stopped) {
      await delay(seconds * 1000, undefined, { ref: false });
      if (!stopped) await round(state);
    }
  }

  return {
    async once() {
      await Promise.all(states.map(round));
    },
    start(seconds) {
      for (const state of states) void repeat(state, seconds);
    },
    stop() {
      stopped = true;
    },
    age: () => Math.max(0, now() - Math.min(...states.map(({ succeeded }) => succeeded))) / 1000,
  };
}
