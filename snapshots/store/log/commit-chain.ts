import type { Commit } from "../../../schemas/store/snapshot.ts";
import { CorruptObjectError, MissingObjectError, ObjectError } from "../errors.ts";
import { layout } from "../layout.ts";
import type { Storage } from "../storage.ts";
import { readCommit } from "./commits.ts";

/** Commits fetched at a time. One after the other, a remote store's latency would make a long log take minutes. */
const fetchedAtOnce = 32;

/**
 * A commit and those that it leads back to, newest first, down to number `lowest`. Each has the digest that its
 * successor names. Throws ObjectError where the log leads no further.
 */
export async function* logFrom(storage: Storage, newest: Commit, lowest = 1): AsyncGenerator<Commit> {
  yield newest;
  for (let oldest = newest; oldest.commit > lowest; ) {
    const commits = await commitsBefore(storage, oldest, lowest);
    yield* commits;
    oldest = commits.at(-1)!;
  }
}

/**
 * The commits before `successor`, newest first: at least one, at most as many as are fetched at a time, none below
 * number `lowest`.
 */
export async function commitsBefore(storage: Storage, successor: Commit, lowest = 1): Promise<Commit[]> {
  const count = Math.min(fetchedAtOnce, successor.commit - lowest);
  const numbers = Array.from({ length: count }, (_, index) => successor.commit - 1 - index);
  const read = await Promise.allSettled(numbers.map((number) => readPresent(storage, number)));
  const commits: Commit[] = [];
  for (const result of read) {
    const { previous } = commits.at(-1) ?? successor;
    const fault =
      result.status === "rejected"
        ? result.reason
        : result.value.digest !== previous &&
          new CorruptObjectError(
            layout.commit(result.value.commit),
            "it is not the one that the next commit follows",
          );
    if (fault) {
      // The commits before the fault count. The next call meets the fault first.
      if (commits.length > 0) break;
      throw fault;
    }
    if (result.status === "fulfilled") commits.push(result.value);
  }
  return commits;
}

/** The log leads no further: the store lacks the commit, or has another or a damaged one. */
export function isBroken(error: unknown): error is CorruptObjectError | MissingObjectError {
  return error instanceof ObjectError;
}

async function readPresent(storage: Storage, number: number): Promise<Commit> {
  const commit = await readCommit(storage, number);
  if (!commit) throw new MissingObjectError(layout.commit(number));
  return commit;
}
