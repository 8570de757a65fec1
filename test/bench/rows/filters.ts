import type { HistoricalMarket } from "../../../schemas/records.ts";
import { ask, jsonOf, latencies, overHttp, type Target, warmUps } from "../load/client.ts";
import { randomFilters } from "../load/filters.ts";
import { startChdb } from "../peers/clickhouse.ts";
import { startArchivePeer } from "../peers/peers.ts";
import { atMost, type Measurement, quantile } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";
import { evaluate } from "./evaluation.ts";
import { measureLastPages } from "./last-page.ts";
import { sameAnswers } from "./walk.ts";

/** Milliseconds of both sides, one figure a filter. */
type Latencies = Record<"ours" | "peer", number[]>;

const paths = { ours: "/api/v1/markets/historical", peer: "/markets" };
const postgres = "Express + PostgreSQL";

/** Rows 3 to 5 and 17: filters, asked one at a time over one connection a side. */
export async function measureFilters(bench: Bench): Promise<Measurement[]> {
  const wants = (row: number) => bench.options.rows.includes(row);
  const store = await bench.data.store();
  const ours = await startProxy(bench, store);
  const { filters: count } = bench.options.effort;
  // Each filter is asked for once, so that nobody knows it: those of the two comparisons are others.
  const all = randomFilters(await someMarkets(ours), 2 * (count + warmUps));
  const [filters, others] = [all.slice(0, all.length / 2), all.slice(all.length / 2)];
  const measured: Measurement[] = [];
  const askOurs = overHttp(ours, (query) => `${paths.ours}?${query}`);
  const work = "first page of a new filter of 2-4 conditions, exact total";
  if (wants(3) || wants(4)) {
    const archive = await startArchivePeer(bench);
    const peer = overHttp(archive, (query) => `${paths.peer}?${query}`);
    const { first, next } = await askAll({ ours: askOurs, peer }, filters);
    if (wants(3)) measured.push(...compared(3, work, postgres, first));
    if (wants(4)) measured.push(...compared(4, "next page of that filter", postgres, next));
  }
  const { chdb } = bench.programs;
  if (wants(17) && !chdb) bench.say("row 17 is left out: test/servers/python-install.sh chdb installs it");
  if (wants(17) && chdb) {
    const peer = await startChdb(bench, chdb);
    const first = await latencies(others, { ours: askOurs, peer }, (answers, filter) =>
      sameAnswers(answers.ours, answers.peer, filter),
    );
    measured.push(...compared(17, work, "chdb, MergeTree in the archive's order", first));
  }
  if (wants(3)) measured.push(...(await evaluationRows(store, filters.slice(warmUps))));
  if (wants(5)) measured.push(...(await measureLastPages(bench, ours, filters)));
  return measured;
}

/** Markets from all over the archive. */
export async function someMarkets(target: Target): Promise<HistoricalMarket[]> {
  const { total } = jsonOf(await ask(target, `${paths.ours}?pageSize=1`));
  const pages = Math.ceil(total / 500);
  const numbers = new Set(
    [1, 0.25, 0.5, 0.75, 1].map((share, n) => (n === 0 ? 1 : Math.ceil(share * pages))),
  );
  const markets: HistoricalMarket[] = [];
  for (const page of numbers)
    markets.push(...jsonOf(await ask(target, `${paths.ours}?pageSize=500&page=${page}`)).markets);
  return markets;
}

/** Asks both for the first page of each filter and, if there is one, the next; the answers must be alike. */
async function askAll(
  sides: Record<"ours" | "peer", ReturnType<typeof overHttp>>,
  filters: readonly string[],
): Promise<{ first: Latencies; next: Latencies }> {
  const next: Latencies = { ours: [], peer: [] };
  const first = await latencies(filters, sides, async ({ ours, peer }, filter, place) => {
    sameAnswers(ours, peer, filter);
    if (ours.nextCursor === null) return;
    const followed = [
      await sides.ours(`cursor=${ours.nextCursor}`, place),
      await sides.peer(`${filter}&cursor=${peer.nextCursor}`, place),
    ] as const;
    sameAnswers(followed[0].answer, followed[1].answer, `the page after ${filter}`);
    if (place < warmUps) return;
    next.ours.push(followed[0].milliseconds);
    next.peer.push(followed[1].milliseconds);
  });
  return { first, next };
}

function compared(row: number, work: string, name: string, { ours, peer }: Latencies): Measurement[] {
  return [
    {
      row,
      work: `${work}: p50`,
      unit: "ms",
      ours,
      peer: { name, rounds: peer },
      ...atMost(0.1, "ratio"),
      note:
        `${ours.length} different filters, each asked once, in turn; every answer is compared; ` +
        "the goal is 10 times faster",
    },
    {
      row,
      work: `${work}: p99`,
      unit: "ms",
      ours: [quantile(ours, 0.99)],
      peer: { name, rounds: [quantile(peer, 0.99)] },
      ...atMost(0.1, "ratio"),
    },
  ];
}

/** Goals stand for these numbers of markets alone. */
const evaluationGoals: Record<number, number> = { 1000000: 2, 10000000: 10 };

async function evaluationRows(store: string, filters: readonly string[]): Promise<Measurement[]> {
  const once = await evaluate(store, filters);
  const tenfold = await evaluate(store, filters, 10);
  if (once.totals.some((total, place) => tenfold.totals[place] !== total * 10))
    throw new Error("ten copies of an archive do not have ten times the matches");
  return [once, tenfold].map(({ markets, milliseconds }, place) => {
    const limit = evaluationGoals[markets];
    const p50 = quantile(milliseconds, 0.5).toFixed(3);
    return {
      row: 3,
      work: `evaluation alone over ${markets.toLocaleString("en-US")} markets: p99`,
      unit: "ms",
      ours: [quantile(milliseconds, 0.99)],
      ...(limit !== undefined && atMost(limit)),
      note: `p50 ${p50} ms${place === 1 ? "; ten copies of every segment, each in memory of its own" : ""}`,
    };
  });
}
