import type { Turn } from "../store/in-parallel.ts";

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

/** The caller that long work is done for. */
export interface Payer {
  /** Whether nobody waits for the answer any more. */
  gone(): boolean;
  /** Pays for a piece of the work. The work ends when it throws. */
  pay(): Promise<void>;
}

/** Steps of awaitBudget per quota unit: some 50 ms. */
const stepsPerUnit = 400;

/** Waits as awaitBudget does, and pays for the steps beyond those of the request's own unit. */
export function paidSteps(pay: Payer["pay"]): Turn {
  let done = 0;
  return async (steps = 1) => {
    done += steps;
    while (done >= stepsPerUnit) {
      // Must come before the payment, because others may add to it meanwhile.
      done -= stepsPerUnit;
      await pay();
    }
    await awaitBudget(steps);
  };
}

/** Work ended because its payer left, or could not pay; `cause` is what `pay` threw. */
export class GivenUpError extends Error {
  override readonly name = "GivenUpError";
  readonly payer: Payer;

  constructor(payer: Payer, cause?: unknown) {
    super("nobody waits for this work any more, or pays for it", { cause });
    this.payer = payer;
  }
}

/** Steps of each turn of work on differences. */
const stepsPerTurn = 4;

/** Its payer pays for the work as it is done; the request itself has paid for the first piece. */
export function paidTurns(payer: Payer): Turn {
  const spend = paidSteps(payer.pay);
  return async () => {
    if (payer.gone()) throw new GivenUpError(payer);
    await spend(stepsPerTurn).catch((error: unknown) => {
      throw new GivenUpError(payer, error);
    });
  };
}
