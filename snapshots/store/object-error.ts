/**
 * An object of the store is damaged or missing; the message begins with its key. Everything that reads objects may
 * throw this, and StorageError when the store itself fails. Comments name errors only where callers handle them.
 */
export abstract class ObjectError extends Error {
  readonly key: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
  }
}
