import { type AnyErrorCode, Fault, isFault } from "../../schemas/errors.ts";

/**
 * A damaged or missing object of the store; the message begins with its key. Everything that reads objects may throw
 * this, and StorageError when the store itself fails. Comments name errors only where callers handle them.
 */
export abstract class ObjectError extends Error {
  abstract readonly code: AnyErrorCode;
  readonly key: string;
  readonly reason: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
    this.reason = reason;
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

/**
 * The store lacks an object that a manifest or segment names: it was collected with its snapshot, or the store is
 * damaged.
 */
export class MissingObjectError extends ObjectError {
  readonly code = "MISSING_OBJECT";

  constructor(key: string) {
    super(key, "it is missing");
  }
}

/** False for an object of an unknown format version, which may be sound. */
export function isLoss(error: unknown): error is CorruptObjectError | MissingObjectError {
  return error instanceof ObjectError && !(error instanceof FormatError);
}

/** A part of an object has an encoding that this program does not know. The rest of the store can be read. */
export class UnknownEncodingError extends FormatError {}

/** Refuses a binary object of any encoding but 0, the only one there is so far. */
export function requireEncoding(key: string, encoding: number, what = "it"): void {
  if (encoding === 0) return;
  const reason = `${what} has encoding ${encoding}, which this version does not know`;
  throw new UnknownEncodingError(key, `${reason}: use a newer version of this program`);
}

export function tooShort(
  key: string,
  { offset, bytes }: { offset: number; bytes: number },
): CorruptObjectError {
  return new CorruptObjectError(key, `it ends before byte ${offset + bytes}`);
}

export function tooLarge(key: string, bytes: number, maxBytes: number): CorruptObjectError {
  return new CorruptObjectError(key, `it has ${bytes} bytes, more than the ${maxBytes} expected at most`);
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

type ErrorClass<Failure> = abstract new (...args: never[]) => Failure;

/** Returns the result of the work or, when it fails with an error of this class or code, that of `otherwise`. */
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

/** As `unless`, for synchronous work. */
export function unlessSync<T, Failure extends Error, Other = undefined>(
  failure: ErrorClass<Failure>,
  work: () => T,
  otherwise: (error: Failure) => Other = () => undefined as Other,
): T | Other {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof failure)) throw error;
    return otherwise(error);
  }
}

/** Undefined when there is no such file or folder. */
export function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error) => {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  });
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** What DuckDB says when it cannot spill. It uses at most nine tenths of the free space. */
const cannotSpill = /No space left on device|max_temp_directory_size/;

/**
 * The error to throw when work that keeps files in `folder` has failed: LOCAL_FOLDER when the folder is to blame,
 * otherwise `error` itself. `wayOut` tells users how to choose another folder.
 */
export function localFailure(error: unknown, folder: string, wayOut: string): unknown {
  if (!(error instanceof Error) || isFault(error, "LOCAL_FOLDER")) return error;
  // Errors about an open file carry no path.
  const isOf =
    "path" in error && typeof error.path === "string"
      ? `${error.path}/`.startsWith(`${folder}/`)
      : hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO") || cannotSpill.test(error.message);
  if (!isOf) return error;
  const [reason] = error.message.split("\n");
  return new Fault("LOCAL_FOLDER", `${folder}: cannot keep files there: ${reason}; ${wayOut}`, {
    cause: error,
  });
}
