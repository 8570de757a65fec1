/** Whether an error of Node carries one of these codes, such as ENOENT. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/** What the work gives; undefined when it fails with an error of this class. */
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

/** What work on a file or folder gives; undefined when there is none. */
export function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  return work.catch((error) => {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  });
}

/** What an error says; of anything else that was thrown, its text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
