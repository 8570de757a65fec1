import { type AnyErrorCode, Fault, isFault } from "../../schemas/errors.ts";
/**
 * An object of the store is damaged or missing; the message begins with its key. Everything that reads objects may
 * throw this, and StorageError when the store itself fails. Comments name errors only where callers handle them.
 */
export abstract class ObjectError extends Error {
  abstract readonly code: AnyErrorCode;
  readonly key: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
  }
}

/** A stored object does not hold what its name, digest or schema promises. */
export class CorruptObjectError extends ObjectError {
  readonly code: AnyErrorCode = "CORRUPT_OBJECT";
}

/** A stored object is of a format version that this program does not know. The message says what to do. */
export class FormatError extends CorruptObjectError {
  override readonly code = "FOREIGN_FORMAT";
}

/** The store lacks an object that a manifest or segment names: the snapshot was collected, or the store is damaged. */
export class MissingObjectError extends ObjectError {
  readonly code = "MISSING_OBJECT";

  constructor(key: string) {
    super(key, "it is missing");
  }
}

/** Whether an error says that an object is lost or damaged, and not of another version of the format. */
export function isLoss(error: unknown): error is CorruptObjectError | MissingObjectError {
  return error instanceof ObjectError && !(error instanceof FormatError);
}

/** A part of a stored object is of an encoding that this program does not know; the rest of the store can be read. */
export class UnknownEncodingError extends FormatError {}

/** Refuses a binary object whose encoding, the number behind its first length, is not the only one there is so far. */
export function requireEncoding(key: string, encoding: number, what = "it"): void {
  if (encoding === 0) return;
  const reason = `${what} has encoding ${encoding}, which this version does not know`;
  throw new UnknownEncodingError(key, `${reason}: use a newer version of this program`);
}

/** The error for an object that ends before a range of it does. */
export function tooShort(
  key: string,
  { offset, bytes }: { offset: number; bytes: number },
): CorruptObjectError {
  return new CorruptObjectError(key, `it ends before byte ${offset + bytes}`);
}

/** The error for an object with more bytes than a sound one can have. */
export function tooLarge(key: string, bytes: number, maxBytes: number): CorruptObjectError {
  return new CorruptObjectError(key, `it has ${bytes} bytes, more than the ${maxBytes} expected at most`);
}

/** Whether an error of Node carries one of these codes, such as ENOENT. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

type ErrorClass<Failure> = abstract new (...args: never[]) => Failure;

/** The result of the work; when it fails with an error of this class or code, what `otherwise` makes of that. */
export async function unless<T, Failure extends Error = Fault, Other = undefined>(
  failure: ErrorClass<Failure> | AnyErrorCode,
  work: () => Promise<T>,
  otherwise: (error: Failure) => Other = () => undefined as Other,
): Promise<T | Other> {
  try {
    return await work();
  } catch (error) {
    if (typeof failure === "string" ? !isFault(error, failure) : !(error instanceof failure)) throw error;
    return otherwise(error as Failure);
  }
}

/** The result of work on a file or folder; undefined when nothing is there. */
export function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error) => {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  });
}

/** The message of an error, or the text of another thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** DuckDB's messages when it cannot spill. It uses at most nine tenths of the free space. */
const cannotSpill = /No space left on device|max_temp_directory_size/;

/**
 * The error to throw when work that keeps files in `folder` has failed: a LOCAL_FOLDER when the folder is to blame,
 * otherwise `error` itself. `wayOut` says how to use another folder.
 */
export function localFailure(error: unknown, folder: string, wayOut: string): unknown {
  if (!(error instanceof Error) || isFault(error, "LOCAL_FOLDER") || !isOf(folder, error)) return error;
  const [reason] = error.message.split("\n");
  return new Fault("LOCAL_FOLDER", `${folder}: cannot keep files there: ${reason}; ${wayOut}`, {
    cause: error,
  });
}

function isOf(folder: string, error: Error & { path?: unknown }): boolean {
  if (typeof error.path === "string") return error.path.startsWith(folder);
  // What fails on an open file has no path in its error.
  return hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO") || cannotSpill.test(error.message);
}
