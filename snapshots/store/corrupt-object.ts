import { ObjectError } from "./object-error.ts";

/** A stored object does not hold what its name, digest or schema promises. */
export class CorruptObjectError extends ObjectError {
  override readonly name: string = "CorruptObjectError";
}

/** A stored object is of a format version that this program does not know. The message says what to do. */
export class FormatError extends CorruptObjectError {
  override readonly name = "FormatError";
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
