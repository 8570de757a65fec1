import type { Storage } from "../../../snapshots/store/storage.ts";
import { aroundCalls } from "./storages.ts";

/** An operation of one of the actors that has not begun yet. */
interface Parked {
  actor: number;
  go: () => Promise<void>;
}

/**
 * Runs actors on one store whose operations never overlap and come in an order that `choose` decides, given the number
 * of operations that wait. Settles as they do.
 */
export async function interleaved(
  storage: Storage,
  actors: readonly ((storage: Storage) => Promise<unknown>)[],
  choose: (waiting: number) => number,
): Promise<PromiseSettledResult<unknown>[]> {
  const parked: Parked[] = [];
  const running = new Set(actors.keys());
  let changed = Promise.withResolvers<void>();
  const ended = (actor: number) => () => {
    running.delete(actor);
    changed.resolve();
  };
  const results = actors.map((work, actor) => {
    const step = <T>(operation: () => Promise<T>): Promise<T> => {
      const { promise, resolve } = Promise.withResolvers<T>();
      parked.push({
        actor,
        go: async () => {
          const done = operation();
          resolve(done);
          await done.catch(() => {});
        },
      });
      changed.resolve();
      return promise;
    };
    const done = work(aroundCalls(storage, step));
    done.then(ended(actor), ended(actor));
    return done;
  });
  const settled = Promise.allSettled(results);
  while (running.size > 0) {
    const waiting = new Set(parked.map(({ actor }) => actor));
    if (running.isSubsetOf(waiting)) {
      await parked.splice(choose(parked.length), 1)[0]!.go();
      // What the actor does next has its turn before the next choice.
      await new Promise(setImmediate);
    } else {
      await changed.promise;
    }
    changed = Promise.withResolvers<void>();
  }
  return settled;
}

/** Whole numbers below a limit, the same for the same seed. */
export function randomly(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}
