import { setTimeout as delay } from "node:timers/promises";
import { within } from "../store/deadline.ts";

/**
 * Runs tasks periodically, without waiting for each other. Calls `done` after every round, with the error if it failed
 * or took longer than `roundSeconds`. A round that is still running is not started again: it can only hang in a call of
 * the kernel, and each of those occupies one of the process's few threads.
 */
export function createPoller(
  tasks: readonly { name: string; run: () => Promise<void> }[],
  roundSeconds: number,
  now: () => number,
  done: (task: string, error?: unknown) => void,
) {
  const states = tasks.map((task) => ({ ...task, succeeded: now(), underway: false }));
  type State = (typeof states)[number];
  let stopped = false;

  async function run(state: State): Promise<void> {
    if (state.underway) throw new Error("the round before has not ended");
    state.underway = true;
    await state.run().finally(() => (state.underway = false));
    state.succeeded = now();
  }

  async function round(state: State): Promise<void> {
    try {
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
    /** Runs each task once, side by side. Never throws. */
    once: () => Promise.all(states.map(round)),
    /** Runs each task again and again, the first time in `seconds`. */
    start(seconds: number): void {
      for (const state of states) void repeat(state, seconds);
    },
    stop: () => (stopped = true),
    /** Seconds since the task that failed for longest succeeded, or since the poller was created. */
    age: () => Math.max(0, now() - Math.min(...states.map(({ succeeded }) => succeeded))) / 1000,
  };
}
