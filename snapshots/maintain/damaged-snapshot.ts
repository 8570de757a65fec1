import { CorruptObjectError, FormatError } from "../store/errors.ts";

/**
 * Does a piece of work on a snapshot that a collection keeps. The error of a damaged object then names its manifest,
 * whose deletion gives the snapshot up. Throws what the work throws.
 */
export async function naming<T>(manifest: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CorruptObjectError) || error instanceof FormatError) throw error;
    const reason = error.message.slice(error.key.length + 2);
    const told =
      `${reason}. Nothing is deleted while a snapshot that is to be kept lacks it; its manifest is ` +
      `${manifest}`;
    throw new CorruptObjectError(error.key, told, { cause: error });
  }
}
