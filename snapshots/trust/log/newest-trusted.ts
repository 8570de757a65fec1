import type { Commit } from "../../../schemas/store/snapshot.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { headCommit, listCommits, newestAfter, newestCommit, readCommit } from "../../store/log/commits.ts";
import type { Storage } from "../../store/storage.ts";
import type { Trust, UntrustedError } from "../trust.ts";

/**
 * Commits that cannot be believed, one after the other, among which a search gives up: anybody may have put them there.
 */
const maxRefused = 100;

/** Why a commit cannot be believed. */
type Refusal = UntrustedError | CorruptObjectError;

/**
 * The newest commit; with `trust` the newest that a trusted key signed, whatever stands above it. `known` is one that
 * was the newest before. Throws StorageError, and without `trust` as newestCommit does.
 */
export async function newestBelieved(
  storage: Storage,
  trust: Trust | undefined,
  known?: Commit,
): Promise<Commit | undefined> {
  if (!trust) return known ? newestAfter(storage, known) : newestCommit(storage);
  let commit = known && !trust.commit(known) ? known : undefined;
  if (!commit)
    for await (const number of candidates(storage)) {
      const found = await judge(storage, trust, number);
      if (found && !(found instanceof Error)) commit = found;
      if (commit) break;
    }
  let last = commit?.commit ?? 0;
  for (let number = last + 1; number - last <= maxRefused; number += 1) {
    const found = await judge(storage, trust, number);
    if (!found) break;
    if (found instanceof Error) continue;
    commit = found;
    last = number;
  }
  return commit;
}

/** Numbers to begin at, best first. Commits are listed only where nothing is known. */
async function* candidates(storage: Storage): AsyncGenerator<number> {
  const hint = await headCommit(storage);
  if (hint) yield hint;
  for (const number of (await listCommits(storage)).toReversed().slice(0, maxRefused)) yield number;
}

/** A commit, or why it is refused; undefined when there is none. */
export function judge(storage: Storage, trust: Trust, number: number): Promise<Commit | Refusal | undefined> {
  const judged = async () => {
    const commit = await readCommit(storage, number);
    return (commit && trust.commit(commit)) ?? commit;
  };
  return unless(CorruptObjectError, judged, (error) => error);
}
