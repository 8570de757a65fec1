import { CorruptObjectError, isLoss, MissingObjectError } from "../store/errors.ts";

/**
 * Works on a snapshot that a collection keeps. The error of a lost or damaged object then names the manifest, whose
 * deletion gives the snapshot up, unless that itself is gone.
 */
export async function naming<T>(manifest: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isGone = error instanceof MissingObjectError && error.key === manifest;
    if (!isLoss(error) || isGone) throw error;
    const reason = error.message.slice(error.key.length + 2);
    const told =
      `${reason}. Nothing is deleted while a snapshot that is to be kept lacks it; its manifest is ` +
      `${manifest}`;
    throw new CorruptObjectError(error.key, told, { cause: error });
  }
}
