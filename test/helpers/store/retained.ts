import type { Commit } from "../../../schemas/store/stored-objects.ts";
import type { Retention } from "../../../snapshots/maintain/commits.ts";

/** How a collection judges what is old. */
export type Collecting = Retention & { now: number };

/** Whether the snapshot of a commit stays, said again in plain words. */
export function isKept(
  log: readonly { commit: Commit }[],
  index: number,
  { now, keepHours, keepCommits, ...rules }: Collecting,
): boolean {
  const { commit } = log[index]!;
  const successor = log[index + 1]?.commit;
  if (!successor || index >= log.length - keepCommits) return true;
  if (Date.parse(successor.entry.publishedAt) >= now - keepHours * 3_600_000) return true;
  const withdrawn = log.at(-1)!.commit.entry.withdrawn;
  const stands = ({ entry: { commit: number } }: Commit) =>
    !withdrawn.some(([a, b]) => a <= number && number <= b);
  const isLast = (length: number, periods: number) => {
    const periodOf = (time: string) => time.slice(0, length);
    const own = periodOf(commit.entry.publishedAt);
    const later = log
      .slice(index + 1)
      .some((other) => periodOf(other.commit.entry.publishedAt) === own && stands(other.commit));
    const back = new Date(now);
    if (length === 10) back.setUTCDate(back.getUTCDate() - periods);
    else back.setUTCMonth(back.getUTCMonth() - periods, 1);
    return periods > 0 && stands(commit) && !later && own >= periodOf(back.toISOString());
  };
  return isLast(10, rules.keepDaily ?? 0) || isLast(7, rules.keepMonthly ?? 0);
}
