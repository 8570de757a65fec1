import type { ErrorCode } from "../../schemas/errors.ts";
import {
  CursorExpiredError,
  CursorMismatchError,
  DamagedLogError,
  ExportNotFoundError,
  InvalidCursorError,
  InvalidParameterError,
  MarketNotFoundError,
  NoSnapshotError,
  ProtocolNotFoundError,
  type ReadError,
  SnapshotExpiredError,
  SnapshotNotFoundError,
} from "../../snapshots/read/errors.ts";
import { CorruptObjectError } from "../../snapshots/store/corrupt-object.ts";
import { DeadlineError } from "../../snapshots/store/deadline.ts";
import { MissingObjectError } from "../../snapshots/store/objects.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import { ServiceError } from "./service-error.ts";

type Type<Thrown> = abstract new (...parameters: never[]) => Thrown;

/** What every error of snapshots/ that an answer can end in is answered with (INTERFACE 7). */
const answered: readonly [Type<ReadError>, ErrorCode][] = [
  [InvalidParameterError, "INVALID_PARAMETER"],
  [InvalidCursorError, "INVALID_CURSOR"],
  [CursorMismatchError, "CURSOR_MISMATCH"],
  [CursorExpiredError, "CURSOR_EXPIRED"],
  [MarketNotFoundError, "MARKET_NOT_FOUND"],
  [NoSnapshotError, "SNAPSHOT_UNAVAILABLE"],
  [DamagedLogError, "SNAPSHOT_UNAVAILABLE"],
  [ProtocolNotFoundError, "PROTOCOL_NOT_FOUND"],
  [ExportNotFoundError, "SNAPSHOT_NOT_FOUND"],
  [SnapshotNotFoundError, "SNAPSHOT_NOT_FOUND"],
  [SnapshotExpiredError, "SNAPSHOT_EXPIRED"],
];
const unreadable = "The archive cannot be read right now; try again in a few seconds.";
/** Errors whose messages are logged and not shown, since they name objects of the store. */
const hidden: readonly [Type<unknown>, ErrorCode, string][] = [
  [MissingObjectError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [CorruptObjectError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [StorageError, "SNAPSHOT_UNAVAILABLE", unreadable],
  [DeadlineError, "UPSTREAM_TIMEOUT", "The answer was not ready in time; try again."],
];

/** Whatever was thrown, as an error of the service. What nobody foresaw becomes INTERNAL and tells the caller nothing. */
export function serviceErrorOf(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  for (const [type, code] of answered)
    if (thrown instanceof type)
      return new ServiceError(code, thrown.message, thrown, { cause: thrown.cause });
  for (const [type, code, detail] of hidden)
    if (thrown instanceof type) return new ServiceError(code, detail, {}, { cause: thrown });
  const detail = "Something went wrong on our side; the request id identifies it.";
  return new ServiceError("INTERNAL", detail, {}, { cause: thrown });
}
