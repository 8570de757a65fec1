/** A folder of this machine for files that can be made again is full, or cannot be used. */
export class LocalFolderError extends Error {
  override readonly name = "LocalFolderError";
}

/** What DuckDB says when it cannot spill; it takes no more than nine tenths of what is free. */
const cannotSpill = /No space left on device|max_temp_directory_size/;

/**
 * What to throw for an error of work that keeps files in a folder: where the folder is at fault, one that names it and
 * the variable that moves it; any other error as it is.
 */
export function localFailure(error: unknown, folder: string, variable: string): unknown {
  if (!(error instanceof Error) || error instanceof LocalFolderError || !isOf(folder, error)) return error;
  const [reason] = error.message.split("\n");
  const message = `${folder}: cannot keep files there: ${reason}; ${variable} names another folder`;
  return new LocalFolderError(message, { cause: error });
}

function isOf(folder: string, error: Error & { path?: unknown; syscall?: unknown }): boolean {
  // The operating system tells no path where a file is open already.
  if (typeof error.path === "string") return error.path.startsWith(folder);
  return error.syscall === "write" || cannotSpill.test(error.message);
}
