/** Whether an error of Node carries one of these codes, such as ENOENT. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/** The result of the work; undefined when it fails with an error of this class. */
export async function unless<T>(
  failure: abstract new (...args: never[]) => Error,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof failure) return undefined;
    throw error;
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
