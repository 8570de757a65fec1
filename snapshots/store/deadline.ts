/** Something took longer than it may. */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
}

/**
 * Waits for work at most so many seconds, and no longer than until `given` is aborted. The work is told by its own
 * signal to stop; whether it does or not, the wait ends. Throws DeadlineError, or the reason of `given`.
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
  const timer = setTimeout(() => end(new DeadlineError(`no answer within ${seconds} s`)), seconds * 1000);
  const giveUp = () => end(given?.reason);
  given?.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([work(over.signal), ended.promise]);
  } finally {
    clearTimeout(timer);
    given?.removeEventListener("abort", giveUp);
  }
}
