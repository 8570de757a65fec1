import type { ErrorCode, Problem } from "../../schemas/errors.ts";
import { ReadError } from "../../snapshots/read/errors.ts";
import { CorruptObjectError } from "../../snapshots/store/corrupt-object.ts";
import { DeadlineError } from "../../snapshots/store/deadline.ts";
import { MissingObjectError } from "../../snapshots/store/objects.ts";
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

const unreadable = "The archive cannot be read right now; try again in a few seconds.";
/** Errors whose messages are logged and not shown, since they name objects of the store. */
const hidden: readonly [new (...parameters: never[]) => Error, ErrorCode, string][] = [
  [MissingObjectError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [CorruptObjectError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [StorageError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [DeadlineError, "UPSTREAM_TIMEOUT", "The answer was not ready in time; try again."],
];

/** Whatever was thrown, as an error of the service. What nobody foresaw becomes INTERNAL and tells the caller nothing. */
export function serviceErrorOf(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (thrown instanceof ReadError)
    return new ServiceError(thrown.code, thrown.message, thrown, { cause: thrown.cause });
  for (const [type, code, detail] of hidden)
    if (thrown instanceof type) return new ServiceError(code, detail, {}, { cause: thrown });
  const detail = "Something went wrong on our side; the request id identifies it.";
  return new ServiceError("INTERNAL", detail, {}, { cause: thrown });
}
