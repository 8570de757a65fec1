import { DeadlineError, within } from "../../snapshots/store/deadline.ts";
import { ServiceError } from "../reply/service-error.ts";

/**
 * Waits for the work behind an answer as long as a caller is made to wait. `late` tells work whose turn comes when nobody
 * waits for it any more that it need not begin. Throws ServiceError UPSTREAM_TIMEOUT, or what the work throws.
 */
export type InTime = <T>(work: (late: () => boolean) => Promise<T>) => Promise<T>;

/** The longest a caller waits, in seconds, as a function over the work. */
export function answerDeadline(seconds: number): InTime {
  return async (work) => {
    try {
      return await within(seconds, (signal) => work(() => signal.aborted));
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error;
      throw new ServiceError("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
    }
  };
}
