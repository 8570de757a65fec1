import type { ErrorCode, Nearest } from "../../schemas/errors.ts";

/** A question that has no answer. The message says why and is meant for the caller. */
export abstract class ReadError extends Error {
  /** What the caller is answered with (INTERFACE 7). */
  abstract readonly code: ErrorCode;
  /** The query parameter at fault. */
  readonly parameter: string | undefined = undefined;
  /** Goes on in the current snapshot; null when nothing follows, and undefined when there is no such place. */
  readonly resumeCursor: string | null | undefined = undefined;
  /** The snapshots around one that is no longer kept. */
  readonly nearest: Nearest | undefined = undefined;
}

/** A query parameter is not as documented. */
export class InvalidParameterError extends ReadError {
  override readonly name = "InvalidParameterError";
  readonly code = "INVALID_PARAMETER";
  override readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

/** A snapshot of another version has no index for a field. */
export class NotIndexedError extends InvalidParameterError {
  constructor(field: string, { snapshotId, publishedAt }: { snapshotId: string; publishedAt: string }) {
    super(
      field,
      `The snapshot ${snapshotId}, published at ${publishedAt}, has no index for ${field}; leave it out, or ` +
        "ask for another snapshot.",
    );
  }
}

/** A cursor that no reader of this store gave out, or not in this form. */
export class InvalidCursorError extends ReadError {
  override readonly name = "InvalidCursorError";
  readonly code = "INVALID_CURSOR";
  override readonly parameter = "cursor";

  constructor() {
    super(
      "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    );
  }
}

/** A query has other filters than the cursor it comes with. `parameter` is the first that differs. */
export class CursorMismatchError extends ReadError {
  override readonly name = "CursorMismatchError";
  readonly code = "CURSOR_MISMATCH";
  override readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

/** A cursor's snapshot is no longer kept. */
export class CursorExpiredError extends ReadError {
  override readonly name = "CursorExpiredError";
  readonly code = "CURSOR_EXPIRED";
  override readonly parameter = "cursor";
  override readonly resumeCursor: string | null | undefined;

  constructor(message: string, resumeCursor?: string | null) {
    super(message);
    this.resumeCursor = resumeCursor;
  }
}

/** A snapshot has no market of this id. */
export class MarketNotFoundError extends ReadError {
  override readonly name = "MarketNotFoundError";
  readonly code = "MARKET_NOT_FOUND";

  constructor(id: string) {
    super(`No market has the id ${id}; GET /api/v1/markets/historical lists all.`);
  }
}

/** A snapshot has the market that somebody wants to see absent. */
export class MarketPresentError extends ReadError {
  override readonly name = "MarketPresentError";
  readonly code = "NOT_FOUND";

  constructor(id: string) {
    super(
      `The archive has a market of this id: GET /api/v1/markets/${id} answers it, with the same asOf if any.`,
    );
  }
}

/** No snapshot that is kept has a part of an index with this hash. */
export class SectionNotFoundError extends ReadError {
  override readonly name = "SectionNotFoundError";
  readonly code = "SECTION_NOT_FOUND";

  constructor(hash: string) {
    super(`No kept snapshot has ${hash} in its index; GET /api/v1/markets/index names what the newest has.`);
  }
}

/** A snapshot has no protocol of this slug. */
export class ProtocolNotFoundError extends ReadError {
  override readonly name = "ProtocolNotFoundError";
  readonly code = "PROTOCOL_NOT_FOUND";

  constructor() {
    super("No protocol of this slug is scored; GET /api/v1/scores lists all.");
  }
}

/** No snapshot has been loaded yet. */
export class NoSnapshotError extends ReadError {
  override readonly name = "NoSnapshotError";
  readonly code = "SNAPSHOT_UNAVAILABLE";

  constructor(message = "No snapshot is loaded yet; try again in a few seconds.") {
    super(message);
  }
}

/** No snapshot with this id was ever published. `parameter` named it. */
export class SnapshotNotFoundError extends ReadError {
  override readonly name = "SnapshotNotFoundError";
  readonly code = "SNAPSHOT_NOT_FOUND";
  override readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

/** There is no export of a snapshot, or it has no such file. */
export class ExportNotFoundError extends ReadError {
  override readonly name = "ExportNotFoundError";
  readonly code = "SNAPSHOT_NOT_FOUND";
}

/** The shared table has no such version. */
export class VersionNotFoundError extends ReadError {
  override readonly name = "VersionNotFoundError";
  readonly code = "VERSION_NOT_FOUND";
}

/** What a version of the shared table changed was not exported. */
export class ChangesNotExportedError extends ReadError {
  override readonly name = "ChangesNotExportedError";
  readonly code = "VERSION_NOT_FOUND";
}

/** A snapshot is no longer kept, or what is kept of it does not suffice. `parameter` named it. */
export class SnapshotExpiredError extends ReadError {
  override readonly name = "SnapshotExpiredError";
  readonly code = "SNAPSHOT_EXPIRED";
  override readonly parameter: string;
  override readonly nearest: Nearest | undefined;

  constructor(parameter: string, message: string, nearest?: Nearest) {
    super(message);
    this.parameter = parameter;
    this.nearest = nearest;
  }
}

/**
 * What was asked for lies behind a commit of the log that is damaged or missing, so nobody can tell whether it was ever
 * there. The message is for the caller; `cause` names the commit.
 */
export class DamagedLogError extends ReadError {
  override readonly name = "DamagedLogError";
  readonly code = "SNAPSHOT_UNAVAILABLE";

  /** `publishedAt` is the time of the oldest commit that can be believed. */
  constructor(publishedAt: string, cause: Error) {
    super(
      `The service's record of what was published before ${publishedAt} is damaged, until its operator restores it. ` +
        "What was published since then is not affected.",
    );
    this.cause = cause;
  }
}
