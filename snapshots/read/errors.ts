import { Fault } from "../../schemas/errors.ts";

export const invalidParameter = (parameter: string, message: string) =>
  new Fault("INVALID_PARAMETER", message, { parameter });

/**
 * What was asked for lies behind the commit that `cause` names. `publishedAt` is the time of the oldest commit that can
 * be believed. Callers see the message.
 */
export const damagedLog = (publishedAt: string, cause: Error) =>
  new Fault(
    "DAMAGED_LOG",
    `The service's record of what was published before ${publishedAt} is damaged, until its operator restores it. ` +
      "What was published since then is not affected.",
    { cause },
  );

export const noSnapshot = (message = "No snapshot is loaded yet; try again in a few seconds.") =>
  new Fault("SNAPSHOT_UNAVAILABLE", message);

/** No reader of this store gave out the cursor, or not in this form. */
export const invalidCursor = () =>
  new Fault(
    "INVALID_CURSOR",
    "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    { parameter: "cursor" },
  );

/** No kept snapshot has a part of an index with this hash. */
export const sectionNotFound = (hash: string) =>
  new Fault(
    "SECTION_NOT_FOUND",
    `No kept snapshot has ${hash} in its index; GET /api/v1/markets/index names what the newest has.`,
  );
