import { DeadlineError, within } from "../../snapshots/store/deadline.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { Limits } from "../limits.ts";

/**
 * Waits for an answer as long as a caller has to wait. `late` tells work that is still queued when nobody waits for it any
 * more. Throws ServiceError UPSTREAM_TIMEOUT, or what the work throws.
 */
export async function inTime<T>(
  { answerSeconds }: Pick<Limits, "answerSeconds">,
  work: (late: () => boolean) => Promise<T>,
): Promise<T> {
  try {
    return await within(answerSeconds, (signal) => work(() => signal.aborted));
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error;
    throw new ServiceError("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
  }
}
