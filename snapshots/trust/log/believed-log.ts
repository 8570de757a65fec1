import type { Commit } from "../../../schemas/store/snapshot.ts";
import { MissingObjectError } from "../../store/errors.ts";
import { logFrom } from "../../store/log/commit-chain.ts";
import { listCommits, readLog } from "../../store/log/commits.ts";
import type { Storage } from "../../store/storage.ts";
import { refuseUntrusted, UntrustedPredecessorError } from "../signing.ts";
import type { Trust } from "../trust.ts";
import { judge } from "./newest-trusted.ts";
import { evidenceIn, requireNamed } from "./run-log.ts";

/**
 * The commits of a store that a run may count, oldest first. With `trust` they are the newest one, which a trusted key
 * must have signed, and those that it leads back to; otherwise all. The oldest may be missing. Throws
 * UntrustedPredecessorError, CorruptObjectError or MissingObjectError where a commit of the past is not the one that
 * the next follows, or StorageError.
 */
export async function believedLog(storage: Storage, trust: Trust | undefined): Promise<Commit[]> {
  if (!trust) return readLog(storage);
  const evidence = await evidenceIn(storage, trust);
  const numbers = await listCommits(storage);
  const newest = numbers.at(-1) ?? 0;
  const found = await judge(storage, trust, newest);
  if (found instanceof Error) throw refuseUntrusted(storage.location, newest, found);
  await requireNamed(storage, found, evidence);
  if (!found) return [];
  const commits: Commit[] = [];
  try {
    for await (const commit of logFrom(storage, found)) commits.push(commit);
  } catch (error) {
    const oldest = commits.at(-1)!.commit;
    if (!(error instanceof MissingObjectError) || numbers.some((number) => number < oldest)) throw error;
  }
  return commits.reverse();
}

/**
 * The same for a run that deletes what the log does not keep. Also throws UntrustedPredecessorError when commits are
 * signed and no key says whose count, unless `anybody` allows that.
 */
export async function countedLog(
  storage: Storage,
  { trust, anybody }: { trust?: Trust | undefined; anybody?: boolean | undefined },
): Promise<Commit[]> {
  const commits = await believedLog(storage, anybody ? undefined : trust);
  if (trust || anybody || commits.every(({ note }) => note === undefined)) return commits;
  throw new UntrustedPredecessorError(
    `${storage.location}: its commits are signed, and no key says which of them count. Name the public keys of ` +
      "your publishers, " +
      "--trusted-key FILE (or TRUSTED_KEYS), or count what anybody may have put there: --trust-all",
  );
}
