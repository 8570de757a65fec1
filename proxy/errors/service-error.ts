import type { ErrorCode, Problem } from "../../schemas/errors.ts";
import { ReadError } from "../../snapshots/read/errors.ts";
import { DeadlineError } from "../../snapshots/store/deadline.ts";
import { ObjectError } from "../../snapshots/store/errors.ts";
import { StorageError } from "../../snapshots/store/storage.ts";

/** What an error may carry beyond its code and detail. `size`: the bytes of the file that has no such range. */
export type ProblemExtras = Pick<Problem, "parameter" | "resumeCursor" | "nearest"> & { size?: number };

/** Thrown anywhere in proxy/ and answered as a problem. `message` is the public detail. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ErrorCode;
  readonly extras: ProblemExtras;

  constructor(code: ErrorCode, detail: string, extras: ProblemExtras = {}, options?: ErrorOptions) {
    super(detail, options);
    this.code = code;
    const { parameter, resumeCursor, nearest, size } = extras;
    this.extras = { parameter, resumeCursor, nearest, ...(size !== undefined && { size }) };
  }
}

/**
 * Whatever was thrown, as an error of the service. What nobody foresaw becomes INTERNAL and tells the caller nothing,
 * and messages that name objects of the store are logged and not shown.
 */
export function serviceErrorOf(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (thrown instanceof ReadError)
    return new ServiceError(thrown.code, thrown.message, thrown, { cause: thrown.cause });
  const hidden = (code: ErrorCode, detail: string) => new ServiceError(code, detail, {}, { cause: thrown });
  if (thrown instanceof ObjectError || thrown instanceof StorageError)
    return hidden(
      "SNAPSHOT_UNAVAILABLE",
      "The archive cannot be read right now; try again in a few seconds.",
    );
  if (thrown instanceof DeadlineError)
    return hidden("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
  return hidden("INTERNAL", "Something went wrong on our side; the request id identifies it.");
}
