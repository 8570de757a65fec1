import { hasCode } from "./error-code.ts";

/** A local folder is full or cannot be used. The message names it and the way out. */
export class LocalFolderError extends Error {
  override readonly name = "LocalFolderError";
}

/** DuckDB's messages when it cannot spill. It uses at most nine tenths of the free space. */
const cannotSpill = /No space left on device|max_temp_directory_size/;

/**
 * The error to throw when work that keeps files in `folder` has failed: a LocalFolderError when the folder is to blame,
 * otherwise `error` itself. `wayOut` says how to use another folder.
 */
export function localFailure(error: unknown, folder: string, wayOut: string): unknown {
  if (!(error instanceof Error) || error instanceof LocalFolderError || !isOf(folder, error)) return error;
  const [reason] = error.message.split("\n");
  return new LocalFolderError(`${folder}: cannot keep files there: ${reason}; ${wayOut}`, { cause: error });
}

function isOf(folder: string, error: Error & { path?: unknown }): boolean {
  if (typeof error.path === "string") return error.path.startsWith(folder);
  // What fails on an open file has no path in its error.
  return hasCode(error, "ENOSPC", "EDQUOT", "EFBIG", "EIO") || cannotSpill.test(error.message);
}
