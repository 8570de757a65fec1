import { Worker } from "node:worker_threads";
import { Fault } from "../../schemas/errors.ts";

// Waiting for work that may hang, and threads to put it on.

/** Waits at most `seconds` for work that cannot be stopped. Throws DEADLINE, or the work's own error. */
export function inTime<T>(seconds: number, working: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const end = () => {
      over = true;
      clearTimeout(timer);
    };
    void working.then(resolve, reject).then(end);
    // Most work is done by the next tick, and a timer would cost more than the work.
    process.nextTick(() => {
      if (!over) timer = setTimeout(() => reject(late(seconds)), seconds * 1000);
    });
  });
}

/**
 * Waits at most `seconds` for work, or until `outer` is aborted. Either aborts the signal that the work got, and ends
 * the wait even if the work ignores it. Throws DEADLINE, the reason of `outer`, or the work's own error.
 */
export async function within<T>(
  seconds: number,
  work: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  outer?.throwIfAborted();
  const over = new AbortController();
  const ended = Promise.withResolvers<never>();
  const end = (reason: unknown) => {
    over.abort(reason);
    ended.reject(reason);
  };
  const timer = setTimeout(() => end(late(seconds)), seconds * 1000);
  const giveUp = () => end(outer?.reason);
  outer?.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([work(over.signal), ended.promise]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", giveUp);
  }
}

const late = (seconds: number) => new Fault("DEADLINE", `no answer within ${seconds} s`);

/** `module` is the URL of a module of this project. */
export function startThread(module: string, workerData?: unknown): Worker {
  // Node before 22.18 needs tsx to load TypeScript, and applies --import tsx to the main thread only.
  const tsx = import.meta.resolve("tsx/esm/api");
  const start = `
    const loader = process.features.typescript ? undefined : import(${JSON.stringify(tsx)});
    Promise.resolve(loader).then((module) => {
      module?.register();
      return import(${JSON.stringify(module)});
    });`;
  return new Worker(start, { eval: true, execArgv: [], workerData });
}
