/** Something that is done again and again; `name` is for the log. */
export interface Chore {
  name: string;
  run: () => Promise<void>;
}

/**
 * Runs all chores, waits `seconds`, and begins anew, so that no run overlaps the one before. A chore that
 * fails is tried again the next time. Returns the way to stop.
 */
export function poll(
  chores: readonly Chore[],
  seconds: number,
  done: (chore: string, error?: unknown) => void,
): () => void {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const round = async () => {
    await runChores(chores, done);
    if (!stopped) schedule();
  };
  const schedule = () => {
    timer = setTimeout(round, seconds * 1000).unref();
  };
  schedule();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** Runs all chores once, side by side, and reports each as `done`, with the error of one that failed; never throws. */
export async function runChores(
  chores: readonly Chore[],
  done: (chore: string, error?: unknown) => void,
): Promise<void> {
  await Promise.all(
    chores.map(({ name, run }) =>
      run().then(
        () => done(name),
        (error) => done(name, error),
      ),
    ),
  );
}
