import { Fault } from "../../schemas/errors.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import { FormatError, MissingObjectError, ObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { isWithdrawn, listCommits, logFrom, readCommit } from "../store/log/commits.ts";
import { infoOf, type Storage } from "../store/storage.ts";
import { believe, recall, refuseUntrusted, type Signing } from "../trust/log/believe.ts";
import { judge, UntrustedError } from "../trust/trust.ts";

/** Whose commits count, and from which one on. */
export interface Counting {
  /** The keys whose commits count, and what remembers the log. Without keys all count, if nobody signs the store. */
  signing?: Signing | undefined;
  /** Counts everybody's, in a signed store too. */
  anybody?: boolean | undefined;
  /** The number of the commit with which the log begins, where its operator knows that those before are gone. */
  begins?: number | undefined;
}

/**
 * The commits of a store for a run that deletes what they do not keep, oldest first: the newest one, which a trusted
 * key must have signed where keys are given, and those that it leads back to. Throws UNTRUSTED_PREDECESSOR when
 * somebody else's would count, or the log is not the one that is known.
 */
export async function countedLog(
  storage: Storage,
  { signing = {}, anybody = false, begins = 1 }: Counting,
): Promise<Commit[]> {
  const memory = await recall(storage, anybody ? {} : signing, { witnesses: true });
  const { trust } = memory;
  const last = (await listCommits(storage)).at(-1) ?? 0;
  const newest = trust ? await judge(storage, trust, last) : await readCommit(storage, last);
  if (newest instanceof FormatError) throw newest;
  if (newest instanceof Error) {
    const ours = `sign over it, publish --sign-over ${last}, or name the key that did`;
    const isRead = newest instanceof UntrustedError;
    throw refuseUntrusted(storage.location, newest, isRead ? ours : undefined);
  }
  const { fault } = await believe(storage, newest, memory);
  if (fault) throw fault;
  const commits = newest ? await backFrom(storage, newest, begins) : [];
  if (trust || anybody || commits.every(({ note }) => note === undefined)) return commits;
  throw new Fault(
    "UNTRUSTED_PREDECESSOR",
    `${storage.location}: its commits are signed, and no key says which of them count. Name the public keys of ` +
      "your publishers, --trusted-key FILE (or TRUSTED_KEYS), or count what anybody may have put there: --trust-all",
  );
}

/** A commit and all that it leads back to, at least to number `begins`, oldest first. */
async function backFrom(storage: Storage, newest: Commit, begins: number): Promise<Commit[]> {
  if (newest.entry.commit < begins) throw broken(storage, new MissingObjectError(layout.commit(begins)));
  const commits: Commit[] = [];
  try {
    for await (const commit of logFrom(storage, newest)) commits.push(commit);
  } catch (error) {
    if (!(error instanceof ObjectError)) throw error;
    if (commits.at(-1)!.entry.commit > begins) throw broken(storage, error);
  }
  return commits.reverse();
}

function broken({ location }: Storage, cause: ObjectError): Fault {
  const what = `${location}: ${cause.message}, so nobody can tell what the commits up to it keep`;
  return new Fault("BROKEN_LOG", what, { cause });
}

/** How long a store keeps what was superseded. 0 turns a rule off; the current snapshot always stays. */
export interface Retention {
  /** Hours for which a snapshot stays after it was superseded. */
  keepHours: number;
  /** How many of the newest commits keep their snapshots. */
  keepCommits: number;
  /** Days before today whose last snapshots stay. */
  keepDaily?: number;
  /** Months before this one whose last snapshots stay. */
  keepMonthly?: number;
  /** Days for which a commit's change record stays. */
  keepChangesDays?: number;
}

/** The rules by which something stays, as bits of a mask. */
export const rules = { always: 1, hours: 2, commits: 4, daily: 8, monthly: 16, changes: 32 } as const;

export const hour = 3_600_000;
const day = 24 * hour;

/** The rules that keep the snapshot of each commit, as masks. `commits` is the whole log, oldest first. */
export function masksOf(commits: readonly Commit[], retention: Retention & { now: Date }): number[] {
  const { now, keepHours, keepCommits, keepDaily = 0, keepMonthly = 0 } = retention;
  const since = now.getTime() - keepHours * hour;
  const daily = lastOfEach(commits, dayOf, dayOf(now) - keepDaily);
  const monthly = lastOfEach(commits, monthOf, monthOf(now) - keepMonthly);
  return commits.map((commit, index) => {
    const successor = commits[index + 1];
    const maskIf = (kept: boolean, rule: number) => (kept ? rule : 0);
    return (
      maskIf(!successor, rules.always) |
      maskIf(successor !== undefined && Date.parse(successor.entry.publishedAt) >= since, rules.hours) |
      maskIf(index >= commits.length - keepCommits, rules.commits) |
      maskIf(keepDaily > 0 && daily.has(commit), rules.daily) |
      maskIf(keepMonthly > 0 && monthly.has(commit), rules.monthly)
    );
  });
}

export function keepsChanges(
  { entry: { publishedAt } }: Commit,
  { now, keepChangesDays = 0 }: Retention & { now: Date },
): boolean {
  return keepChangesDays > 0 && Date.parse(publishedAt) >= now.getTime() - keepChangesDays * day;
}

/** The last commit of each period from `first` on. One that a rollback withdrew was a mistake, and does not count. */
function lastOfEach(
  commits: readonly Commit[],
  periodOf: (time: Date) => number,
  first: number,
): ReadonlySet<Commit> {
  const newest = commits.at(-1)?.entry;
  const last = new Map<number, Commit>();
  for (const commit of commits) {
    const period = periodOf(new Date(commit.entry.publishedAt));
    if (period >= first && !isWithdrawn(commit.entry.commit, newest)) last.set(period, commit);
  }
  return new Set(last.values());
}

function dayOf(time: Date): number {
  return Math.floor(time.getTime() / day);
}

function monthOf(time: Date): number {
  return time.getUTCFullYear() * 12 + time.getUTCMonth();
}

/**
 * The commit with this number, or the newest whose snapshot id begins with these 8 or more digits, if possible one
 * whose manifest is kept. Only `newest` and commits that it leads back to count: whoever can write to the store may
 * have put others there. Withdrawn ones count too, so that a rollback can be undone.
 */
export async function findCommit(storage: Storage, target: string, newest: Commit): Promise<Commit> {
  const number = /^[1-9]\d{0,6}$/.test(target) ? Number(target) : undefined;
  if (number === undefined && !/^[0-9a-f]{8,64}$/.test(target)) {
    throw new Fault(
      "SNAPSHOT_NOT_FOUND",
      `${JSON.stringify(target)} is neither a commit number nor 8 or more digits of a snapshot id`,
    );
  }
  if (number !== undefined && number > newest.entry.commit)
    throw new Fault("SNAPSHOT_NOT_FOUND", `${storage.location}: there is no commit ${number}`);
  const matches: Commit[] = [];
  let broken: Error | undefined;
  try {
    for await (const commit of logFrom(storage, newest, number)) {
      const { snapshotId } = commit.entry;
      const fits = number === undefined ? snapshotId.startsWith(target) : commit.entry.commit === number;
      if (fits) matches.push(commit);
    }
  } catch (error) {
    if (!(error instanceof ObjectError)) throw error;
    broken = error;
  }
  const [first, ...older] = matches;
  if (older.some(({ entry }) => entry.snapshotId !== first!.entry.snapshotId))
    throw new Fault("SNAPSHOT_NOT_FOUND", `several snapshot ids begin with ${target}; give more digits`);
  for (const commit of older.length > 0 ? matches : [])
    if (await infoOf(storage, layout.manifest(commit.manifest.hash))) return commit;
  if (first) return first;
  const reason = broken
    ? `the log does not lead from commit ${newest.entry.commit} back to ` +
      `${number === undefined ? "a snapshot" : "commit"} ${target}: ${broken.message}`
    : `no commit has a snapshot id that begins with ${target}`;
  throw new Fault("SNAPSHOT_NOT_FOUND", `${storage.location}: ${reason}`, { cause: broken });
}
