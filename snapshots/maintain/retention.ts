import type { Commit } from "../../schemas/store/snapshot.ts";

/** How long a store keeps what was superseded. 0 turns a tier off; the current snapshot stays in any case. */
export interface Retention {
  /** Hours for which a snapshot stays after it was superseded. */
  keepHours: number;
  /** The snapshots of this many newest commits stay. */
  keepCommits: number;
  /** Days whose last snapshot stays, beside today. */
  keepDaily?: number;
  /** Months whose last snapshot stays, beside this one. */
  keepMonthly?: number;
  /** Days for which the change record of a commit stays. */
  keepChangesDays?: number;
}

/** The tiers, each a bit of a mask. `current` stands for what stays in any case. */
export const tiers = { current: 1, hours: 2, commits: 4, daily: 8, monthly: 16, changes: 32 } as const;

const hour = 3_600_000;
const day = 24 * hour;

/** The tiers that keep the snapshot of each commit, as masks. `commits` is the whole log, oldest first. */
export function tierMasksOf(commits: readonly Commit[], retention: Retention & { now: Date }): number[] {
  const { now, keepHours, keepCommits, keepDaily = 0, keepMonthly = 0 } = retention;
  const since = now.getTime() - keepHours * hour;
  const daily = lastOfEach(commits, dayOf, dayOf(now) - keepDaily);
  const monthly = lastOfEach(commits, monthOf, monthOf(now) - keepMonthly);
  return commits.map((commit, index) => {
    const successor = commits[index + 1];
    const among = (kept: boolean, tier: number) => (kept ? tier : 0);
    return (
      among(!successor, tiers.current) |
      among(successor !== undefined && Date.parse(successor.publishedAt) >= since, tiers.hours) |
      among(index >= commits.length - keepCommits, tiers.commits) |
      among(keepDaily > 0 && daily.has(commit), tiers.daily) |
      among(keepMonthly > 0 && monthly.has(commit), tiers.monthly)
    );
  });
}

/** Whether the change record of a commit stays. */
export function keepsChanges(
  { publishedAt }: Commit,
  { now, keepChangesDays = 0 }: Retention & { now: Date },
): boolean {
  return keepChangesDays > 0 && Date.parse(publishedAt) >= now.getTime() - keepChangesDays * day;
}

/** The last commit of each period from `first` on. What a rollback withdrew was a mistake, and is the last of none. */
function lastOfEach(
  commits: readonly Commit[],
  periodOf: (time: Date) => number,
  first: number,
): ReadonlySet<Commit> {
  const withdrawn = commits.at(-1)?.withdrawn ?? [];
  const last = new Map<number, Commit>();
  for (const commit of commits) {
    const period = periodOf(new Date(commit.publishedAt));
    const stands = !withdrawn.some(([from, to]) => from <= commit.commit && commit.commit <= to);
    if (stands && period >= first) last.set(period, commit);
  }
  return new Set(last.values());
}

function dayOf(time: Date): number {
  return Math.floor(time.getTime() / day);
}

function monthOf(time: Date): number {
  return time.getUTCFullYear() * 12 + time.getUTCMonth();
}
