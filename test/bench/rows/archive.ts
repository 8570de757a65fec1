import { setImmediate as nextRound } from "node:timers/promises";
import type { LabelFacet, MarketFacets, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { createLabelTables } from "../../../snapshots/index/index-reader.ts";
import { loadSegment, type Segment } from "../../../snapshots/index/segment.ts";
import { evaluate } from "../../../snapshots/read/archive/evaluate.ts";
import { awaitBudget } from "../../../snapshots/read/budgets.ts";
import { Archive } from "../../../snapshots/read/catalog/snapshots.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { readObject } from "../../../snapshots/store/objects.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";
import { drawing } from "../../helpers/store/drawing.ts";
import { randomFilters, someMarkets, warmUps } from "../filters.ts";
import { startArchivePeer } from "../peers/postgres.ts";
import { asking, type Bench, inTurn, loadOf, quantile, startConstant } from "../run.ts";
import { ask, askJson } from "../servers.ts";

const archive = "/api/v1/markets/historical";
const postgres = "Express + PostgreSQL";
const newFilter = "of a new filter of 2-4 conditions";

/** A walk through the whole archive. */
export async function walk(bench: Bench): Promise<void> {
  const ours = await bench.startOurs();
  const paths: string[] = [];
  let middle = Buffer.alloc(0);
  for (let path: string | undefined = `${archive}?pageSize=500`; path !== undefined; ) {
    paths.push(path);
    const { sent, body } = await ask(ours, path);
    const cursor: string | undefined = /"nextCursor":"([^"]+)"/.exec(body.toString())?.[1];
    if (cursor) middle = sent;
    path = cursor && `${archive}?cursor=${cursor}`;
  }
  const constant = await startConstant(bench, middle);
  const connections = 8;
  const rounds = await inTurn(bench.effort.rounds, {
    ours: await loadOf(bench, { target: ours, paths, connections }),
    peer: await loadOf(bench, { target: constant, paths: ["/constant"], connections }),
  });
  const rows = (pages: number[]) => pages.map((each) => (each * bench.data.markets) / paths.length);
  const peer = ["Express, a constant", rows(rounds.peer)] as const;
  const work = "unfiltered walk, 500 a page, gzip";
  await bench.found({ work, unit: "rows/s", ours: rows(rounds.ours), peer, goal: "ratio >= 0.5" });
}

/** The first page of a new filter, asked one at a time over one connection a side. */
export async function pages(bench: Bench): Promise<void> {
  const ours = await bench.startOurs();
  // Each filter is asked for once, so that nobody knows it.
  const filters = await randomFilters(ours, warmUps + bench.effort.filters);
  const peer = await startArchivePeer(bench);
  const sides = {
    ours: asking(ours, filters, `${archive}?`),
    peer: asking(peer, filters, "/markets?"),
  };
  const content = (page: { count: number; total: number; markets: unknown[] }) =>
    JSON.stringify([page.count, page.total, page.markets]);
  const times = await inTurn(bench.effort.filters, sides, {
    warmUps,
    alike: (answers) => content(answers.ours) === content(answers.peer),
  });
  const [work, unit, goal] = [`first page ${newFilter}, exact total`, "ms", "ratio <= 0.1"];
  await bench.found({ work: `${work}: p50`, unit, ours: times.ours, peer: [postgres, times.peer], goal });
  const [own, other] = [[quantile(times.ours, 0.99)], [quantile(times.peer, 0.99)]];
  await bench.found({ work: `${work}: p99`, unit, ours: own, peer: [postgres, other], goal });
}

/** The last full page against page 1, both warm. */
export async function lastPages(bench: Bench): Promise<void> {
  const ours = await bench.startOurs();
  const totalOf = async (filter: string): Promise<number> =>
    (await askJson(ours, `${archive}?pageSize=100${filter}`)).total;
  const filtered: string[] = [];
  // So many that the last page is far from the first.
  for (const filter of await randomFilters(ours, bench.effort.filters))
    if (filtered.length < 5 && (await totalOf(`&${filter}`)) >= 300) filtered.push(`&${filter}`);
  for (const [which, filters] of Object.entries({ unfiltered: [""], filtered })) {
    // The last one is mostly short, and so would be quicker for having less to send.
    const lastOf = async (filter: string) => `${Math.floor((await totalOf(filter)) / 100)}${filter}`;
    const last = await Promise.all(filters.map(lastOf));
    const start = `${archive}?pageSize=100&page=`;
    const first = filters.map((filter) => `1${filter}`);
    const sides = { first: asking(ours, first, start), last: asking(ours, last, start) };
    const rounds = 4 * bench.effort.filters;
    const times = await inTurn(rounds, sides, { warmUps });
    const p99 = (all: number[]) => [quantile(all, 0.99)];
    const work = `the last page against page 1, ${which}: p99`;
    await bench.found({
      work,
      unit: "ms",
      ours: p99(times.last),
      peer: ["page 1", p99(times.first)],
      goal: "ratio <= 1.2",
    });
  }
}

/** Goals stand for these numbers of markets alone. */
const evaluationGoals: Record<number, string> = { 1000000: "<= 2", 10000000: "<= 10" };

/** A filter's evaluation alone, in this process: no HTTP, no pages, and no other requests to take turns with. */
export async function evaluation(bench: Bench): Promise<void> {
  const queries = await randomFilters(await bench.startOurs(), bench.effort.filters);
  const filters = queries.map((query) => archiveQuery(query).filter);
  const totals: number[][] = [];
  for (const copies of [1, 10]) {
    const whole = await loadArchive(await bench.data.store(), copies);
    // Compiled code first, from filters in another order. Meanwhile the garbage of loading is collected too.
    for (const filter of filters.toReversed()) await evaluate(whole, filter, awaitBudget);
    const [times, found]: [number[], number[]] = [[], []];
    for (const filter of filters) {
      // A request finds a new round of the event loop, with the whole budget of turns.
      await nextRound();
      const start = performance.now();
      const { total } = await evaluate(whole, filter, awaitBudget);
      times.push(performance.now() - start);
      found.push(total / copies);
    }
    totals.push(found);
    const work = `evaluation alone over ${whole.markets.toLocaleString("en-US")} markets: p99`;
    const goal = evaluationGoals[whole.markets];
    await bench.found({ work, unit: "ms", ours: [quantile(times, 0.99)], ...(goal && { goal }) });
  }
  if (totals[0]!.join() !== totals[1]!.join())
    throw new Error("ten copies of an archive do not have ten times the matches");
}

/**
 * The newest snapshot of a store, `copies` times over. Every copy of a segment is loaded for itself and lies in memory
 * of its own; only times repeat, of which each segment has its own column.
 */
async function loadArchive(store: string, copies: number): Promise<Archive> {
  const storage = directoryStorage(store);
  const commit = (await newestCommit(storage))!;
  const tables = createLabelTables();
  const segments: Segment[] = [];
  for (const ref of (await readManifest(storage, commit)).segments) {
    const key = layout.segment(ref.hash);
    const bytes = await readObject(storage, key, ref);
    for (let copy = 0; copy < copies; copy += 1) segments.push(loadSegment(key, bytes, tables));
  }
  const words = () => Promise.reject(new Error("filters here have no words"));
  return new Archive(segments, tables, { name: store, version: commit.entry.feedVersion, words });
}

/** All facets of a new filter, asked one at a time over one connection a side. */
export async function facets(bench: Bench): Promise<void> {
  const [ours, peer] = [await bench.startOurs(), await startArchivePeer(bench)];
  // Those of the pages are others.
  const filters = await randomFilters(ours, 2 * (warmUps + bench.effort.filters));
  const others = filters.splice(filters.length / 2);
  const sides = {
    facets: asking(ours, filters, `/api/v1/markets/facets?by=${facetNames}&`),
    page: asking(ours, others, `${archive}?`),
    peer: asking(peer, filters, "/facets?"),
  };
  const times = await inTurn(bench.effort.filters, sides, {
    warmUps,
    alike: (answers) => countAlike(answers.facets, answers.peer),
  });
  const work = `all ${facetNames.length} facets ${newFilter}: p50`;
  await bench.found({
    work,
    unit: "ms",
    ours: times.facets,
    peer: [postgres, times.peer],
    goal: "ratio <= 0.02",
  });
  const peers = ["first page of a new filter", times.page] as const;
  await bench.found({ work, unit: "ms", ours: times.facets, peer: peers, goal: "ratio <= 2" });
}

type Counts = { count: number; disputed: number };
const total = (all: Counts[]) =>
  [
    all.reduce((sum, { count }) => sum + count, 0),
    all.reduce((sum, { disputed }) => sum + disputed, 0),
  ].join();

/** The peer tells of every value that occurs, ours of the most frequent, with a sum of the others. */
function countAlike(
  ours: MarketFacets,
  rows: [facet: number, value: string, count: number, disputed: number][],
): boolean {
  return facetNames.every((name, place) => {
    const facet = ours.facets[name] as LabelFacet | ScoreFacet | MonthFacet;
    const theirs = rows.flatMap(([of, value, count, disputed]) =>
      of === place ? [{ value, count, disputed }] : [],
    );
    const told = facet.buckets.map((bucket, number) => {
      const value = "value" in bucket ? bucket.value : String(number);
      // The peer has categories in lower case.
      return { ...bucket, value: name === "category" ? value.toLowerCase() : value };
    });
    const byValue = Map.groupBy(told, ({ value }) => value);
    const known = theirs.filter(
      ({ value, ...counts }) => total(byValue.get(value) ?? []) === total([counts]),
    );
    const others = theirs.filter((one) => !known.includes(one));
    return total(known) === total(told) && total(others) === total("other" in facet ? [facet.other] : []);
  });
}

/** Two words of one question, asked one at a time over one connection a side. */
export async function words(bench: Bench): Promise<void> {
  const [ours, peer] = [await bench.startOurs(), await startArchivePeer(bench)];
  const questions = (await someMarkets(ours)).map(({ question }) => question);
  const random = drawing(1);
  const pairs = new Set<string>();
  while (pairs.size < warmUps + bench.effort.filters) {
    const question = questions[random(questions.length)]!;
    // Words of ASCII letters are those that both sides take for words.
    const all = [...new Set(question.toLowerCase().split(" "))].filter((word) => /^[a-z]{2,}$/.test(word));
    const [first] = all.splice(random(all.length || 1), 1);
    if (all.length > 0) pairs.add(`${first}+${all[random(all.length)]}`);
  }
  const sides = {
    ours: asking(ours, [...pairs], `${archive}?pageSize=1&q=`),
    peer: asking(peer, [...pairs], "/total?q="),
  };
  const times = await inTurn(bench.effort.filters, sides, {
    warmUps,
    alike: (answers) => answers.ours.total === answers.peer.total,
  });
  const work = "two words with exact total: p50";
  const gin = [`${postgres}, GIN`, times.peer] as const;
  await bench.found({ work, unit: "ms", ours: times.ours, peer: gin, goal: "ratio <= 0.5" });
}
