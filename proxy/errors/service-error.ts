import type { ErrorCode, Problem } from "../../schemas/errors.ts";

/** What an error may carry beyond its code and detail. */
export type ProblemExtras = Pick<Problem, "parameter" | "resumeCursor" | "nearest">;

/** Thrown anywhere in proxy/ and answered as a problem. `message` is the public detail. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ErrorCode;
  readonly extras: ProblemExtras;

  constructor(code: ErrorCode, detail: string, extras: ProblemExtras = {}, options?: ErrorOptions) {
    super(detail, options);
    this.code = code;
    const { parameter, resumeCursor, nearest } = extras;
    this.extras = { parameter, resumeCursor, nearest };
  }
}
