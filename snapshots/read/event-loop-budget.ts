// One step is the time it takes to inflate a run, or to compare a column or two of a segment: 0.05 to 0.15 ms.
const stepsPerRound = 20;

interface Waiting {
  steps: number;
  resolve: () => void;
}

const waiting: Waiting[] = [];
let left = stepsPerRound;
let renewing = false;

/**
 * Waits until the caller may do the next piece of a long computation on this thread. All requests share a budget of
 * steps per round of the event loop, first come first served. Small requests therefore do not wait for large ones.
 */
export async function awaitBudget(steps = 1): Promise<void> {
  if (!renewing) setImmediate(renew);
  renewing = true;
  if (left > 0) left -= steps;
  else await new Promise<void>((resolve) => waiting.push({ steps, resolve }));
}

function renew(): void {
  renewing = waiting.length > 0;
  if (renewing) setImmediate(renew);
  left = stepsPerRound;
  while (left > 0 && waiting.length > 0) {
    const { steps, resolve } = waiting.shift()!;
    left -= steps;
    resolve();
  }
}
