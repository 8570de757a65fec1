import {
  CursorExpiredError,
  CursorMismatchError,
  InvalidCursorError,
  InvalidParameterError,
  NoSnapshotError,
} from "../../snapshots/read/errors.ts";
import { CorruptObjectError } from "../../snapshots/store/corrupt-object.ts";
import { MissingObjectError } from "../../snapshots/store/objects.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import { ServiceError } from "./service-error.ts";

/** A row of the table below: an error of snapshots/ and what it is answered with. */
interface Row {
  matches(thrown: unknown): boolean;
  answer(thrown: unknown): ServiceError;
}

function row<E extends Error>(
  type: new (...parameters: never[]) => E,
  answer: (error: E) => ServiceError,
): Row {
  return { matches: (thrown) => thrown instanceof type, answer: (thrown) => answer(thrown as E) };
}

/** The details of these faults name objects of the store, so they are logged and not shown. */
function unreadable(cause: Error): ServiceError {
  const detail = "The archive cannot be read right now; try again in a few seconds.";
  return new ServiceError("SNAPSHOT_UNAVAILABLE", detail, {}, { cause });
}

/** Every error of snapshots/ that an answer can end in (INTERFACE 7). */
const table: readonly Row[] = [
  row(
    InvalidParameterError,
    ({ message, parameter }) => new ServiceError("INVALID_PARAMETER", message, { parameter }),
  ),
  row(
    InvalidCursorError,
    ({ message }) => new ServiceError("INVALID_CURSOR", message, { parameter: "cursor" }),
  ),
  row(
    CursorMismatchError,
    ({ message, parameter }) => new ServiceError("CURSOR_MISMATCH", message, { parameter }),
  ),
  row(
    CursorExpiredError,
    ({ message, resumeCursor }) =>
      new ServiceError("CURSOR_EXPIRED", message, {
        parameter: "cursor",
        ...(resumeCursor !== undefined && { resumeCursor }),
      }),
  ),
  row(NoSnapshotError, ({ message }) => new ServiceError("SNAPSHOT_UNAVAILABLE", message)),
  row(MissingObjectError, unreadable),
  row(CorruptObjectError, unreadable),
  row(StorageError, unreadable),
];

/** Whatever was thrown, as an error of the service. What nobody foresaw becomes INTERNAL and tells the caller nothing. */
export function serviceErrorOf(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  const found = table.find(({ matches }) => matches(thrown));
  if (found) return found.answer(thrown);
  const detail = "Something went wrong on our side; the request id identifies it.";
  return new ServiceError("INTERNAL", detail, {}, { cause: thrown });
}
