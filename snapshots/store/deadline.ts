import { Worker } from "node:worker_threads";
import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhen } from "cockatiel";
import { Fault } from "../../schemas/errors.ts";

// Waiting for work that may hang, threads to put it on, and peers that may be away.

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
    // Most work is over before the turn is, and a timer would take longer than it.
    process.nextTick(() => {
      if (!over) timer = setTimeout(() => reject(late(seconds)), seconds * 1000);
    });
  });
}

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

// This many failures in a row mean that a peer is away, not that one request had bad luck.
const failuresToOpen = 5;

const restMilliseconds = 1000;

/**
 * A circuit breaker for a peer that may be away. After five failures in a row it rests for a second, then one request
 * tries the peer. Meanwhile all others fail at once with BrokenCircuitError instead of waiting for their deadlines.
 * `counts` tells which failures concern the peer and not only one request.
 */
export function guardPeer(counts: (error: Error) => boolean = () => true) {
  const policy = circuitBreaker(handleWhen(counts), {
    halfOpenAfter: restMilliseconds,
    breaker: new ConsecutiveBreaker(failuresToOpen),
  });
  return async <T>(work: () => Promise<T>): Promise<T> => {
    // While one request tries, cockatiel would make the others wait for its outcome.
    if (policy.state === CircuitState.HalfOpen) throw new BrokenCircuitError();
    return policy.execute(work);
  };
}
