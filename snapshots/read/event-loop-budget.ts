// To inflate a run, which is one step, takes 0.05 to 0.15 ms.
const stepsPerRound = 32;

interface Waiting {
  steps: number;
  resolve: () => void;
}

const waiting: Waiting[] = [];
let left = stepsPerRound;
let renewing = false;

/**
 * Waits until one more small piece of long work may be done on this thread. All answers together take so many steps in
 * a round of the event loop, in turn, so that whoever asks for little meanwhile does not wait for them.
 */
export async function step(steps = 1): Promise<void> {
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
