import type { Commit } from "../../schemas/snapshot.ts";
import { listCommits, readLog } from "../store/commits.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { layout } from "../store/layout.ts";
import type { Storage } from "../store/storage.ts";
import { judge } from "./newest-trusted.ts";
import { refuseUntrusted, UntrustedPredecessorError } from "./signing.ts";
import type { Trust } from "./trust.ts";

/**
 * The commits of a store that a run may count, oldest first. With `trust` they are the newest one, which a trusted key must
 * have signed, and those that it leads back to; otherwise all. The oldest may be missing. Throws UntrustedPredecessorError,
 * CorruptObjectError or StorageError.
 */
export async function believedLog(storage: Storage, trust: Trust | undefined): Promise<Commit[]> {
  if (!trust) return readLog(storage);
  const newest = (await listCommits(storage)).at(-1);
  if (newest === undefined) return [];
  const refusal = await judge(storage, trust, newest);
  if (refusal instanceof Error) throw refuseUntrusted(storage.location, newest, refusal);
  // A publisher may have made further ones since the listing, which the next look judges.
  const commits = (await readLog(storage)).filter(({ commit }) => commit <= newest);
  for (const [place, { commit, previous }] of commits.entries()) {
    const before = commits[place - 1];
    if (!before || (before.commit === commit - 1 && before.digest === previous)) continue;
    const reason = `it is missing, or not the one that commit ${commit} follows`;
    throw new CorruptObjectError(layout.commit(commit - 1), reason);
  }
  return commits;
}

/**
 * The same for a run that deletes what the log does not keep. Also throws UntrustedPredecessorError when commits are signed
 * and no key says whose count, unless `anybody` allows that.
 */
export async function countedLog(
  storage: Storage,
  { trust, anybody }: { trust?: Trust | undefined; anybody?: boolean | undefined },
): Promise<Commit[]> {
  const commits = await believedLog(storage, anybody ? undefined : trust);
  if (trust || anybody || commits.every(({ checkpoint }) => checkpoint === undefined)) return commits;
  throw new UntrustedPredecessorError(
    `${storage.location}: its commits are signed, and no key says which of them count. Name the public keys of your publishers, ` +
      "--trusted-key FILE (or TRUSTED_KEYS), or count what anybody may have put there: --trust-all",
  );
}
