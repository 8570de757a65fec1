import { setImmediate as nextRound } from "node:timers/promises";
import { createLabelTables } from "../../../snapshots/index/index-reader.ts";
import { loadSegment, type Segment } from "../../../snapshots/index/segment.ts";
import { evaluate as evaluateFilter } from "../../../snapshots/read/archive/evaluate.ts";
import { awaitBudget } from "../../../snapshots/read/budgets.ts";
import { Archive } from "../../../snapshots/read/catalog/snapshots.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { readObject } from "../../../snapshots/store/objects.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";
import { ask, jsonOf, latencies, overHttp, type Target, warmUps } from "../load/client.ts";
import { newFilters } from "../load/filters.ts";
import { startChdb } from "../peers/clickhouse.ts";
import { startArchivePeer } from "../peers/peers.ts";
import { against, atMost, line, type Measurement, quantile } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";
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

/** A filter's evaluation alone, in this process: no HTTP, no pages, and no other requests to take turns with. */
interface Evaluated {
  markets: number;
  /** Milliseconds, one figure a filter. */
  milliseconds: number[];
  totals: number[];
}

/**
 * Evaluates each filter once over the newest snapshot of a store, `copies` times over. Every copy of a segment is
 * loaded for itself and lies in memory of its own; only times repeat, of which each segment has its own column.
 */
async function evaluate(store: string, queries: readonly string[], copies = 1): Promise<Evaluated> {
  const archive = await loadArchive(store, copies);
  const filters = queries.map((query) => archiveQuery(query).filter);
  // Compiled code first, from filters in another order. Meanwhile the garbage of loading is collected too.
  for (const filter of filters.toReversed()) await evaluateFilter(archive, filter, awaitBudget);
  const evaluated: Evaluated = { markets: archive.markets, milliseconds: [], totals: [] };
  for (const filter of filters) {
    // A request finds a new round of the event loop, with the whole budget of turns.
    await nextRound();
    const start = performance.now();
    const { total } = await evaluateFilter(archive, filter, awaitBudget);
    evaluated.milliseconds.push(performance.now() - start);
    evaluated.totals.push(total);
  }
  return evaluated;
}

async function loadArchive(store: string, copies: number): Promise<Archive> {
  const storage = directoryStorage(store);
  const commit = await newestCommit(storage);
  if (!commit) throw new Error(`${store} holds no commit`);
  const manifest = await readManifest(storage, commit);
  const tables = createLabelTables();
  const segments: Segment[] = [];
  for (const ref of manifest.segments) {
    const key = layout.segment(ref.hash);
    const bytes = await readObject(storage, key, ref);
    for (let copy = 0; copy < copies; copy += 1) segments.push(loadSegment(key, bytes, tables));
  }
  return new Archive(segments, tables, {
    name: store,
    version: commit.entry.feedVersion,
    words: async () => {
      throw new Error("filters here have no words");
    },
  });
}

const pageSize = 100;
/** So many that the last page is far from the first. */
const fewest = 3 * pageSize;
const wantedFilters = 5;

/** Row 5: the last full page against page 1, both warm. */
async function measureLastPages(
  bench: Bench,
  ours: Target,
  filters: readonly string[],
): Promise<Measurement[]> {
  const large: string[] = [];
  for (const filter of filters) {
    if (large.length === wantedFilters) break;
    if ((await totalOf(ours, filter)) >= fewest) large.push(filter);
  }
  return [
    await compare(bench, ours, "unfiltered", "walk", [""]),
    await compare(bench, ours, "filtered", "filters", large),
  ];
}

const address = (filter: string, more: string) =>
  `/api/v1/markets/historical?${filter === "" ? "" : `${filter}&`}pageSize=${pageSize}${more}`;

const totalOf = async (target: Target, filter: string): Promise<number> =>
  jsonOf(await ask(target, address(filter, ""))).total;

async function compare(
  { options: { effort } }: Bench,
  target: Target,
  which: string,
  what: string,
  filters: readonly string[],
): Promise<Measurement> {
  const pairs: [string, string][] = [];
  for (const filter of filters) {
    // The last one is mostly short, and so would be quicker for having less to send.
    const page = Math.floor((await totalOf(target, filter)) / pageSize);
    pairs.push([address(filter, "&page=1"), address(filter, `&page=${page}`)]);
  }
  const { rounds } = await inTurn(effort.rounds, {
    async rounds() {
      const [first, last]: [number[], number[]] = [[], []];
      for (let request = 0; request < effort.requests; request += 1) {
        const [one, other] = pairs[request % pairs.length]!;
        first.push((await ask(target, one)).milliseconds);
        last.push((await ask(target, other)).milliseconds);
      }
      return { first: quantile(first, 0.99), last: quantile(last, 0.99) };
    },
  });
  const ours = rounds.map(({ last }) => last);
  return line(5, `the last page against page 1, ${which}: p99`, "ms", ours, {
    ...against(
      "page 1",
      rounds.map(({ first }) => first),
    ),
    ...atMost(1.2, "ratio"),
    note: `${filters.length} ${what}, ${effort.requests} requests a round of each, warm`,
  });
}
