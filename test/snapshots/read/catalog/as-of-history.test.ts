import fc from "fast-check";
import { expect, test } from "vitest";
import type { MarketPage, SnapshotList } from "../../../../schemas/envelopes.ts";
import { isFault } from "../../../../schemas/errors.ts";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { rollback } from "../../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { readCommit } from "../../../../snapshots/store/log/commits.ts";
import { startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { type Answer, call, problemOf } from "../../../helpers/http/proxy-client.ts";
import { inArchiveOrder, market, publishRecords } from "../../../helpers/publish/records.ts";
import { listed } from "../../../helpers/store/storages.ts";
import { timedStore } from "../../../helpers/store/timed-store.ts";

// AS_OF_HISTORIES=300 npx vitest run --config test/vitest.config.ts --testTimeout=3600000
// test/snapshots/read/catalog/as-of-history.test.ts
const histories = Number(process.env.AS_OF_HISTORIES ?? 8);
const seed = Number(process.env.AS_OF_SEED ?? 14);

const hours = fc.oneof(fc.constant(0), fc.nat(30), fc.nat(900));
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ publish: fc.nat(6), hours }) },
  { weight: 2, arbitrary: fc.record({ backTo: fc.nat(), hours }) },
  {
    weight: 2,
    arbitrary: fc.record({
      keep: fc.record({
        keepHours: fc.constantFrom(0, 24, 48),
        keepCommits: fc.integer({ min: 1, max: 3 }),
        keepDaily: fc.constantFrom(0, 2, 35),
        keepMonthly: fc.constantFrom(0, 2),
        keepChangesDays: fc.constantFrom(0, 90),
      }),
      hours,
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** A commit, and what it showed when it was the current one. */
interface Shown {
  commit: number;
  snapshotId: string;
  publishedAt: string;
  content: number;
  withdrawn: boolean;
}

const contents = Array.from({ length: 7 }, (_, n) =>
  inArchiveOrder(
    Array.from({ length: 8 + 3 * n }, (_, place) => ({ ...market(place), composite: 300 + 7 * n + place })),
  ),
);

/** Carries out the steps, and notes every commit. */
async function historyOf(steps: readonly Step[]) {
  const { storage, collect, pass, now } = timedStore();
  const shown: Shown[] = [];
  const note = (snapshotId: string, publishedAt: string, content: number) =>
    shown.push({ commit: shown.length + 1, snapshotId, publishedAt, content, withdrawn: false });
  const publish = async (content: number) => {
    const done = await publishRecords(storage, contents[content]!, 500 + content, { resume: true, now });
    if (done.outcome === "published") note(done.snapshotId, now().toISOString(), content);
  };
  await publish(0);
  for (const each of steps) {
    pass(each.hours);
    if ("publish" in each) await publish(each.publish);
    else if ("keep" in each) await collect(each.keep);
    else {
      const target = shown[each.backTo % shown.length]!;
      try {
        const { entry } = await rollback(storage, String(target.commit), now);
        const { snapshotId, publishedAt, commit } = entry;
        if (commit === shown.length) continue;
        for (const taken of shown.slice(target.commit)) taken.withdrawn = true;
        note(snapshotId, publishedAt, target.content);
      } catch (error) {
        // The target is current already, or was collected.
        if (!isFault(error, "ROLLBACK_REFUSED")) throw error;
      }
    }
  }
  return { storage, shown };
}

/** The content that an answer to each address shows. */
const rowsOf = (markets: readonly HistoricalMarket[]) =>
  markets.map((row) => `${JSON.stringify(row)}\n`).join("");
const disputed = (content: number) => contents[content]!.filter((row) => row.disputed);

test("every asOf answer is what was given then, whatever was rolled back and collected since", async () => {
  const told = { answered: 0, gone: 0, unknown: 0 };
  const run = async (steps: Step[]) => {
    const { storage, shown } = await historyOf(steps);
    const manifests = new Set((await listed(storage, layout.manifest.prefix)).map(({ key }) => key));
    const kept = new Set<Shown>();
    for (const each of shown) {
      const { manifest } = (await readCommit(storage, each.commit))!;
      if (!each.withdrawn && manifests.has(layout.manifest(manifest.hash))) kept.add(each);
    }
    const proxy = await startArchiveProxy(storage);
    const { port, pathname } = new URL(proxy.address);
    const ask = (path: string, accept = "application/json") =>
      call(Number(port), path, { headers: { ...proxy.headers, accept } });
    const ref = (each: Shown | undefined) =>
      each ? { snapshotId: each.snapshotId, publishedAt: each.publishedAt } : null;

    /** Checks the answer to every address; `meant` is the commit that asOf means. */
    async function check(asOf: string, meant: Shown | undefined): Promise<void> {
      const addresses: [string, (answer: Answer, content: number) => void][] = [
        [
          `${pathname}?pageSize=500&`,
          (answer, content) => expect(answer.json().markets).toEqual(contents[content]),
        ],
        [
          `${pathname}?disputed=true&pageSize=2&`,
          (answer, content) => {
            const { total, markets }: MarketPage = answer.json();
            expect([total, markets]).toEqual([disputed(content).length, disputed(content).slice(0, 2)]);
          },
        ],
        ["/api/v1/scores?", (answer, content) => expect(answer.json().scores[0].bri).toBe(500 + content)],
        [
          "/api/v1/scores/aave/history?",
          (answer, content) => expect(answer.json().points[1].bri).toBe(500 + content),
        ],
      ];
      for (const [address, expectContent] of addresses) {
        const answer = await ask(`${address}asOf=${asOf}`);
        if (meant && kept.has(meant)) {
          told.answered += 1;
          expect([asOf, answer.status, answer.headers["x-snapshot-id"]]).toEqual([
            asOf,
            200,
            meant.snapshotId,
          ]);
          expectContent(answer, meant.content);
        } else if (meant) {
          told.gone += 1;
          const others = [...kept];
          expect(problemOf(answer)).toMatchObject({
            code: "SNAPSHOT_EXPIRED",
            nearest: {
              before: ref(others.findLast(({ commit }) => commit < meant.commit)),
              after: ref(others.find(({ commit }) => commit > meant.commit)),
            },
          });
        } else {
          told.unknown += 1;
          expect(problemOf(answer).code).toBe("SNAPSHOT_NOT_FOUND");
        }
      }
      if (!meant || !kept.has(meant)) return;
      const rows = await ask(`${pathname}?asOf=${asOf}`, "application/x-ndjson");
      expect(rows.text).toBe(rowsOf(contents[meant.content]!));
    }

    const standing = shown.filter(({ withdrawn }) => !withdrawn);
    const times = shown.flatMap(({ publishedAt }) => {
      const [at, day] = [Date.parse(publishedAt), publishedAt.slice(0, 10)];
      return [day, new Date(at).toISOString(), new Date(at - 1).toISOString()];
    });
    for (const asOf of new Set(times)) {
      const time = asOf.length === 10 ? `${asOf}T23:59:59.999Z` : asOf;
      await check(
        asOf,
        standing.findLast(({ publishedAt }) => publishedAt <= time),
      );
    }
    for (const id of new Set(shown.map(({ snapshotId }) => snapshotId))) {
      const named = (all: readonly Shown[]) => all.findLast(({ snapshotId }) => snapshotId === id);
      await check(id, named(standing) ?? named(shown));
    }
    await check("2029-12-31", shown.at(-1));
    const list: SnapshotList = (await ask("/api/v1/snapshots")).json();
    expect(list.snapshots).toEqual(
      [...kept].reverse().map((each) => ({
        snapshotId: each.snapshotId,
        commit: each.commit,
        publishedAt: each.publishedAt,
        supersededAt: shown[each.commit]?.publishedAt ?? null,
        counts: { markets: contents[each.content]!.length, protocols: 4 },
        archiveRoot: expect.any(String),
      })),
    );
    await proxy.stop();
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 10 }), run), {
    numRuns: histories,
    seed,
    endOnFailure: true,
  });
  console.info(`${histories} histories of seed ${seed}: ${JSON.stringify(told)}`);
  expect(told.answered).toBeGreaterThan(6 * histories);
  expect(told.gone).toBeGreaterThan(histories);
  expect(told.unknown).toBeGreaterThan(0.6 * histories);
});
