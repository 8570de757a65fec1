/** A query parameter is not as documented. The message says what is wrong with it and is meant for the caller. */
export class InvalidParameterError extends Error {
  override readonly name = "InvalidParameterError";
  readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

/** A cursor that no reader of this store gave out, or not in this form. */
export class InvalidCursorError extends Error {
  override readonly name = "InvalidCursorError";

  constructor() {
    super(
      "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    );
  }
}

/** A query has other filters than the cursor it comes with. `parameter` is the first that differs. */
export class CursorMismatchError extends Error {
  override readonly name = "CursorMismatchError";
  readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

/**
 * A cursor's snapshot is no longer kept. `resumeCursor` goes on in the current snapshot; it is null when nothing follows,
 * and undefined when the place cannot be found there.
 */
export class CursorExpiredError extends Error {
  override readonly name = "CursorExpiredError";
  readonly resumeCursor: string | null | undefined;

  constructor(message: string, resumeCursor?: string | null) {
    super(message);
    this.resumeCursor = resumeCursor;
  }
}

/** No snapshot has been loaded yet. */
export class NoSnapshotError extends Error {
  override readonly name = "NoSnapshotError";

  constructor() {
    super("No snapshot is loaded yet; try again in a few seconds.");
  }
}
