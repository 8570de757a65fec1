import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Commit, CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { masksOf, type Retention } from "../../../snapshots/maintain/commits.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords } from "../../helpers/publish/records.ts";
import { isKept } from "../../helpers/store/retained.ts";
import { content, timedStore } from "../../helpers/store/timed-store.ts";

const hour = 3_600_000;
const start = Date.parse("2024-01-30T21:00:00.000Z");

/** Commits so many hours apart. */
function logOf(gaps: readonly number[], withdrawn: [number, number][]): Commit[] {
  let time = start;
  return gaps.map((hours, index) => {
    time += hours * hour;
    const publishedAt = new Date(time).toISOString();
    return { entry: { commit: index + 1, publishedAt, withdrawn } as CommitEntry } as Commit;
  });
}

const retention = fc.record({
  keepHours: fc.constantFrom(0, 1, 30, 48),
  keepCommits: fc.integer({ min: 1, max: 4 }),
  keepDaily: fc.constantFrom(0, 1, 3, 35),
  keepMonthly: fc.constantFrom(0, 1, 2, 24),
});

describe("the rules that keep a commit", () => {
  test("are those whose words apply to it", () => {
    const log = fc.record({
      gaps: fc.array(fc.oneof(fc.nat(3), fc.nat(60), fc.nat(900)), {
        minLength: 1,
        maxLength: 30,
        size: "max",
      }),
      withdrawn: fc.array(fc.tuple(fc.integer({ min: 2, max: 30 }), fc.nat(4)), { maxLength: 3 }),
      later: fc.nat(2000),
    });
    fc.assert(
      fc.property(log, retention, ({ gaps, withdrawn, later }, keep) => {
        // The newest one is never withdrawn.
        const ranges = withdrawn.flatMap(([first, more]): [number, number][] =>
          first < gaps.length ? [[first, Math.min(first + more, gaps.length - 1)]] : [],
        );
        const commits = logOf(gaps, ranges);
        const now = new Date(Date.parse(commits.at(-1)!.entry.publishedAt) + later * hour);
        const all = commits.map((commit) => ({ commit }));
        const expected = all.map((_, index) => isKept(all, index, { ...keep, now: now.getTime() }));
        expect(masksOf(commits, { ...keep, now }).map((mask) => mask > 0)).toEqual(expected);
      }),
    );
  });
});

test("a store of many days loses what a rule cost when that rule is off, and keeps it otherwise", async () => {
  const { storage, collect, pass, now } = timedStore();
  // Eight snapshots, two of them in one day, over two months.
  for (const [round, hours] of [12, 4, 24, 240, 480, 20, 30, 5].entries()) {
    pass(hours);
    await publishRecords(storage, content(round), 700 + round, { now });
  }
  pass(1);
  const full: Required<Retention> = {
    keepHours: 40,
    keepCommits: 3,
    keepDaily: 5,
    keepMonthly: 3,
    keepChangesDays: 12,
  };
  const alone = await collect({ keepHours: 40, keepCommits: 1, dryRun: true });
  expect(alone.tiers.hours).toBeGreaterThan(0);
  expect([alone.tiers.commits, alone.tiers.daily, alone.tiers.monthly]).toEqual([0, 0, 0]);
  // What nothing keeps goes only once it is too old for a publish run that is under way.
  pass(100);
  const { tiers: costs, deleted } = await collect({ ...full, dryRun: true });
  const without = {
    commits: { keepCommits: 1 },
    daily: { keepDaily: 0 },
    monthly: { keepMonthly: 0 },
    changes: { keepChangesDays: 0 },
  };
  for (const [rule, off] of Object.entries(without)) {
    const poorer = await collect({ ...full, ...off, dryRun: true });
    expect([rule, poorer.deleted.bytes - deleted.bytes]).toEqual([rule, costs[rule as keyof typeof costs]]);
  }
  expect(costs.monthly).toBeGreaterThan(0);
  expect(costs.changes).toBeGreaterThan(0);
  for (const less of [full, { ...full, keepChangesDays: 0 }, { keepHours: 0, keepCommits: 1 }]) {
    await collect(less);
    expect((await verify(storage, () => {})).faults).toEqual([]);
  }
});
