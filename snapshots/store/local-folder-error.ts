/** A local folder for caches or temporary files is full or cannot be used. The message names it and the way out. */
export class LocalFolderError extends Error {
  override readonly name = "LocalFolderError";
}

/** DuckDB's messages when it cannot spill. It uses at most nine tenths of the free space. */
const cannotSpill = /No space left on device|max_temp_directory_size/;

/**
 * The error to throw when work that keeps files in `folder` has failed: a LocalFolderError when the folder is to blame,
 * otherwise `error` itself. `variable` is the environment variable that chooses another folder.
 */
export function localFailure(error: unknown, folder: string, variable: string): unknown {
  if (!(error instanceof Error) || error instanceof LocalFolderError || !isOf(folder, error)) return error;
  const [reason] = error.message.split("\n");
  const message = `${folder}: cannot keep files there: ${reason}; set ${variable} to use another folder`;
  return new LocalFolderError(message, { cause: error });
}

function isOf(folder: string, error: Error & { path?: unknown; syscall?: unknown }): boolean {
  // A failed write to an open file has no path in its error.
  if (typeof error.path === "string") return error.path.startsWith(folder);
  return error.syscall === "write" || cannotSpill.test(error.message);
}
