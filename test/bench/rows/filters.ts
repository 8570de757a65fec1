import { latencies, overHttp, warmUps } from "../load/client.ts";
import { newFilters } from "../load/filters.ts";
import { startChdb } from "../peers/clickhouse.ts";
import { startArchivePeer } from "../peers/peers.ts";
import { against, atMost, line, type Measurement, quantile } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";
import { evaluate } from "./evaluation.ts";
import { measureLastPages } from "./last-page.ts";
import { sameAnswers } from "./walk.ts";

/** Milliseconds of both sides, one figure a filter. */
type Latencies = Record<"ours" | "peer", number[]>;

const postgres = "Express + PostgreSQL";

/** Rows 3 to 5 and 17: filters, asked one at a time over one connection a side. */
export async function measureFilters(bench: Bench): Promise<Measurement[]> {
  const { wants } = bench;
  const ours = await startProxy(bench);
  // Those of the two comparisons are others.
  const [filters, others] = await newFilters(bench, ours);
  const measured: Measurement[] = [];
  const askOurs = overHttp(ours, (query) => `/api/v1/markets/historical?${query}`);
  const work = "first page of a new filter of 2-4 conditions, exact total";
  if (wants(3, 4)) {
    const peer = overHttp(await startArchivePeer(bench), (query) => `/markets?${query}`);
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
  if (wants(3)) measured.push(...(await evaluationRows(await bench.data.store(), filters.slice(warmUps))));
  if (wants(5)) measured.push(...(await measureLastPages(bench, ours, filters)));
  return measured;
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
    const left = await sides.ours(`cursor=${ours.nextCursor}`, place);
    const right = await sides.peer(`${filter}&cursor=${peer.nextCursor}`, place);
    sameAnswers(left.answer, right.answer, `the page after ${filter}`);
    if (place < warmUps) return;
    next.ours.push(left.milliseconds);
    next.peer.push(right.milliseconds);
  });
  return { first, next };
}

function compared(row: number, work: string, name: string, { ours, peer }: Latencies): Measurement[] {
  const goal = atMost(0.1, "ratio");
  const note =
    `${ours.length} different filters, each asked once, in turn; every answer is compared; ` +
    "the goal is 10 times faster";
  const [slow, slowPeer] = [quantile(ours, 0.99), quantile(peer, 0.99)];
  return [
    line(row, `${work}: p50`, "ms", ours, { ...against(name, peer), ...goal, note }),
    line(row, `${work}: p99`, "ms", [slow], { ...against(name, [slowPeer]), ...goal }),
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
    const work = `evaluation alone over ${markets.toLocaleString("en-US")} markets: p99`;
    const copies = place === 1 ? "; ten copies of every segment, each in memory of its own" : "";
    return line(3, work, "ms", [quantile(milliseconds, 0.99)], {
      ...(limit !== undefined && atMost(limit)),
      note: `p50 ${quantile(milliseconds, 0.5).toFixed(3)} ms${copies}`,
    });
  });
}
