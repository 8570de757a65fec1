import type { Commit } from "../../schemas/store/stored-objects.ts";
import { isWithdrawn } from "../store/log/commits.ts";

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

const hour = 3_600_000;
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

/**
 * The last commit of each period from `first` on. A commit that a rollback withdrew was a mistake, and is never the
 * last.
 */
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
