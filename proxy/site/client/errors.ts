import type { Problem } from "../../../schemas/envelopes.ts";

/** What is known of a request that failed. */
export type ErrorDetails = Partial<
  Pick<
    ApiError,
    "title" | "status" | "requestId" | "parameter" | "resumeCursor" | "retryAfter" | "nearest" | "cause"
  >
>;

/**
 * A request that failed. `code` is the service's error code (`QUOTA_EXCEEDED`, `CURSOR_EXPIRED`, …) or one of the
 * client's own: `UNREACHABLE` (no answer came), `TIMEOUT` (none came in time), `BROKEN_ANSWER` (it broke off or cannot
 * be read), `UNEXPECTED_ANSWER` (an error that the service did not write, such as a gateway's), `MISMATCH` (see
 * IntegrityError), `FORKED_LOG` (see ForkedLogError), `INVALID_URL` (the client was given no address of a service).
 */
export class ApiError extends Error {
  override name = "ApiError";
  declare code: string;
  /** What went wrong, in a few fixed words. The message says more. */
  title = "The request failed";
  /** HTTP status; 0 when no answer came. */
  status = 0;
  /** Names the request in the service's log. */
  declare requestId: string | undefined;
  /** The query parameter that was refused. */
  declare parameter: string | undefined;
  /** With `CURSOR_EXPIRED`: the cursor of the same place in the current snapshot; null when nothing follows there. */
  declare resumeCursor: string | null | undefined;
  /** With `SNAPSHOT_EXPIRED`: the snapshots before and after that can still be read. */
  declare nearest: Problem["nearest"];
  /** Seconds after which the service wants to be asked again. */
  declare retryAfter: number | undefined;

  constructor(code: string, detail: string, { cause, ...about }: ErrorDetails = {}) {
    super(detail, { cause });
    this.code = code;
    Object.assign(this, about);
  }
}

/** An answer that contradicts itself, an earlier answer or its proof. Asking again does not help. */
export class IntegrityError extends ApiError {
  override name = "IntegrityError";

  constructor(detail: string) {
    super("MISMATCH", detail, { title: "The answer cannot be right" });
  }
}

/**
 * What is served does not follow from what you trust, or does not belong to it: at least one byte of it is wrong.
 * `what` names the part: `checkpoint`, `entry`, `inclusion` (that the log has the entry), `index root`, `archive root`,
 * `header` (of a segment's index), `section`, `words`, `page` (the leaf hashes of its markets), `page roots`, `total`,
 * `row`, `rows`, `absence` or `answer`. The message says which one.
 */
export class VerificationError extends IntegrityError {
  override name = "VerificationError";
  declare what: string;

  constructor(what: string, detail: string) {
    super(detail);
    this.what = what;
  }
}

/** @internal */
export const broken = (detail: string) =>
  new ApiError("BROKEN_ANSWER", detail, { title: "The answer broke off" });

/** @internal */
export function check(holds: unknown, detail = "The proof or checkpoint is malformed."): asserts holds {
  if (!holds) throw new IntegrityError(detail);
}
