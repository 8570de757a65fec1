import { Fault } from "../../schemas/errors.ts";

/** A query parameter is not as documented. */
export const invalidParameter = (parameter: string, message: string) =>
  new Fault("INVALID_PARAMETER", message, { parameter });

/**
 * What was asked for lies behind the commit that `cause` names. `publishedAt` is the time of the oldest commit that can
 * be believed. The message is for the caller.
 */
export const damagedLog = (publishedAt: string, cause: Error) =>
  new Fault(
    "DAMAGED_LOG",
    `The service's record of what was published before ${publishedAt} is damaged, until its operator restores it. ` +
      "What was published since then is not affected.",
    { cause },
  );

/** No snapshot has been loaded yet. */
export const noSnapshot = (message = "No snapshot is loaded yet; try again in a few seconds.") =>
  new Fault("SNAPSHOT_UNAVAILABLE", message);

/** A cursor that no reader of this store gave out, or not in this form. */
export const invalidCursor = () =>
  new Fault(
    "INVALID_CURSOR",
    "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    { parameter: "cursor" },
  );

/** No snapshot that is kept has a part of an index with this hash. */
export const sectionNotFound = (hash: string) =>
  new Fault(
    "SECTION_NOT_FOUND",
    `No kept snapshot has ${hash} in its index; GET /api/v1/markets/index names what the newest has.`,
  );
