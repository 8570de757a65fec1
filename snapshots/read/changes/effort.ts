import type { YieldLoop } from "../../changes/sort.ts";
import { awaitBudget } from "../event-loop-budget.ts";

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

/** Yields that one payment is for: a unit then buys about as much work as for a page of rare matches, some 50 ms. */
const yieldsEach = 100;

/** Yields of work that its payer pays for as it is done, the first piece with the request itself. */
export function paidYields(payer: Payer): YieldLoop {
  let yields = 0;
  return async () => {
    if (payer.gone()) throw new GivenUpError(payer);
    yields += 1;
    if (yields % yieldsEach === 0)
      await payer.pay().catch((error: unknown) => {
        throw new GivenUpError(payer, error);
      });
    await awaitBudget(4);
  };
}
