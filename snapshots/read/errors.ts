import type { ErrorCode, Nearest } from "../../schemas/errors.ts";

/** What a refusal tells beside its message. */
interface Told {
  /** The query parameter at fault. */
  parameter?: string | undefined;
  /** Goes on in the current snapshot; null when nothing follows, and undefined when there is no such place. */
  resumeCursor?: string | null | undefined;
  /** The snapshots around one that is no longer kept. */
  nearest?: Nearest | undefined;
}

/** A question that has no answer. `code` is what the caller is answered with (INTERFACE 7), who also gets the message. */
export class ReadError extends Error implements Told {
  override readonly name: string = "ReadError";
  readonly code: ErrorCode;
  readonly parameter: string | undefined;
  readonly resumeCursor: string | null | undefined;
  readonly nearest: Nearest | undefined;

  constructor(code: ErrorCode, message: string, { parameter, resumeCursor, nearest }: Told = {}) {
    super(message);
    this.code = code;
    this.parameter = parameter;
    this.resumeCursor = resumeCursor;
    this.nearest = nearest;
  }
}

/** A query parameter is not as documented. */
export class InvalidParameterError extends ReadError {
  override readonly name = "InvalidParameterError";
  override readonly parameter: string;

  constructor(parameter: string, message: string) {
    super("INVALID_PARAMETER", message, { parameter });
    this.parameter = parameter;
  }
}

/**
 * What was asked for lies behind a commit of the log that is damaged or missing, so nobody can tell whether it was ever
 * there. The message is for the caller; `cause` names the commit.
 */
export class DamagedLogError extends ReadError {
  override readonly name = "DamagedLogError";

  /** `publishedAt` is the time of the oldest commit that can be believed. */
  constructor(publishedAt: string, cause: Error) {
    super(
      "SNAPSHOT_UNAVAILABLE",
      `The service's record of what was published before ${publishedAt} is damaged, until its operator restores it. ` +
        "What was published since then is not affected.",
    );
    this.cause = cause;
  }
}

/** No snapshot has been loaded yet. */
export const noSnapshot = (message = "No snapshot is loaded yet; try again in a few seconds.") =>
  new ReadError("SNAPSHOT_UNAVAILABLE", message);

/** A cursor that no reader of this store gave out, or not in this form. */
export const invalidCursor = () =>
  new ReadError(
    "INVALID_CURSOR",
    "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    { parameter: "cursor" },
  );

/** No snapshot that is kept has a part of an index with this hash. */
export const sectionNotFound = (hash: string) =>
  new ReadError(
    "SECTION_NOT_FOUND",
    `No kept snapshot has ${hash} in its index; GET /api/v1/markets/index names what the newest has.`,
  );
