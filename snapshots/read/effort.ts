import type { YieldLoop } from "../changes/sort.ts";
import { awaitBudget } from "./event-loop-budget.ts";

/** The caller that long work is done for. */
export interface Payer {
  /** Whether the answer is not waited for any more. */
  gone(): boolean;
  /** Pays for a piece of the work. The work ends when it throws. */
  pay(): Promise<void>;
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

/** Steps of work that one unit is for, as `awaitBudget` counts them: some 50 ms. */
const stepsPerUnit = 400;
/** Steps between two yields of work on differences. */
const stepsPerYield = 4;

/** Returns a function that waits as `awaitBudget` does, and pays for the steps behind those of the request's unit. */
export function paidSteps(pay: Payer["pay"]): (steps: number) => Promise<void> {
  let done = 0;
  return async (steps) => {
    done += steps;
    while (done >= stepsPerUnit) {
      // Before it is paid, because others may add to it meanwhile.
      done -= stepsPerUnit;
      await pay();
    }
    await awaitBudget(steps);
  };
}

/** Yields of work that its payer pays for as it is done, the first piece with the request itself. */
export function paidYields(payer: Payer): YieldLoop {
  const spend = paidSteps(payer.pay);
  return async () => {
    if (payer.gone()) throw new GivenUpError(payer);
    await spend(stepsPerYield).catch((error: unknown) => {
      throw new GivenUpError(payer, error);
    });
  };
}
