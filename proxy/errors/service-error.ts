import type { ErrorCode, Problem } from "../../schemas/errors.ts";

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
