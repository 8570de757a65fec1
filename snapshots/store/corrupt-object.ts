/** A stored object does not hold what its name, digest or schema promises. The message begins with the object's key. */
export class CorruptObjectError extends Error {
  override readonly name: string = "CorruptObjectError";
  readonly key: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
  }
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
