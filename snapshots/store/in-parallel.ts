import { Fault } from "../../schemas/errors.ts";

/**
 * Runs `work` for every item, `concurrency` at a time; the default suits small requests to a store. The first failure
 * is thrown at once, while other items may still be running; no further ones are started.
 */
export async function inParallel<Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>,
  concurrency = 16,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  let failed = false;
  const worker = async () => {
    for (let next = queue.next(); !next.done && !failed; next = queue.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

/** Waits at most `seconds` for work that cannot be stopped. Throws DEADLINE, or the work's own error. */
export function inTime<T>(seconds: number, working: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late(seconds)), seconds * 1000);
    void working.then(resolve, reject).then(() => clearTimeout(timer));
  });
}

const late = (seconds: number) => new Fault("DEADLINE", `no answer within ${seconds} s`);

/**
 * Waits at most `seconds` for work, or until `given` is aborted. Either aborts the signal that the work got, and ends
 * the wait even if the work ignores it. Throws DEADLINE, the reason of `given`, or the work's own error.
 */
export async function within<T>(
  seconds: number,
  work: (signal: AbortSignal) => Promise<T>,
  given?: AbortSignal,
): Promise<T> {
  given?.throwIfAborted();
  const over = new AbortController();
  const ended = Promise.withResolvers<never>();
  const end = (reason: unknown) => {
    over.abort(reason);
    ended.reject(reason);
  };
  const timer = setTimeout(() => end(late(seconds)), seconds * 1000);
  const giveUp = () => end(given?.reason);
  given?.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([work(over.signal), ended.promise]);
  } finally {
    clearTimeout(timer);
    given?.removeEventListener("abort", giveUp);
  }
}
