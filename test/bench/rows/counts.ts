import type { LabelFacet, MarketFacets, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { drawing } from "../../helpers/store/drawing.ts";
import { latencies, overHttp, warmUps } from "../load/client.ts";
import { newFilters, someMarkets } from "../load/filters.ts";
import { startArchivePeer } from "../peers/peers.ts";
import { against, atMost, line, type Measurement } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

const by = `by=${facetNames.join()}`;

/** Row 11: all facets of a new filter, asked one at a time over one connection a side. */
export async function measureFacets(bench: Bench): Promise<Measurement[]> {
  const [ours, peer] = [await startProxy(bench), await startArchivePeer(bench)];
  // Those of the pages are others.
  const [filters, others] = await newFilters(bench, ours);
  const sides = {
    facets: overHttp(ours, (filter) => `/api/v1/markets/facets?${by}&${filter}`),
    page: overHttp(ours, (_, place) => `/api/v1/markets/historical?${others[place]}`),
    peer: overHttp(peer, (filter) => `/facets?${filter}`),
  };
  const times = await latencies(filters, sides, (answers, filter) =>
    requireSame(answers.facets, answers.peer, filter),
  );
  const work = `all ${facetNames.length} facets of a new filter of 2-4 conditions: p50`;
  const note = `${bench.options.effort.filters} different filters, each asked once`;
  return [
    line(11, work, "ms", times.facets, {
      ...against("Express + PostgreSQL", times.peer),
      ...atMost(0.02, "ratio"),
      note: `${note}; every count is compared; the peer counts in one pass, with GROUPING SETS`,
    }),
    line(11, work, "ms", times.facets, {
      ...against("first page of a new filter", times.page),
      ...atMost(2, "ratio"),
      note: `${note}; as many other filters for the pages`,
    }),
  ];
}

type Count = [count: number, disputed: number];

/**
 * Throws when the two sides do not count alike. The peer tells of every value that occurs, ours of the most frequent.
 */
function requireSame(ours: MarketFacets, rows: [number, string, ...Count][], filter: string): void {
  for (const [place, name] of facetNames.entries()) {
    const theirs = new Map<string, Count>();
    for (const [facet, value, ...counts] of rows) if (facet === place) theirs.set(value, counts);
    const facet = ours.facets[name] as LabelFacet | ScoreFacet | MonthFacet;
    // The peer has categories in lower case.
    const folded = new Map<string, Count>();
    for (const [bucket, { count, disputed, ...of }] of facet.buckets.entries()) {
      if (count > 0)
        addTo(folded, "value" in of ? spelled(name, of.value) : String(bucket), [count, disputed]);
    }
    for (const [value, counts] of folded) {
      if (theirs.get(value)?.join() !== counts.join()) theirs.set(value, [Number.NaN, 0]);
      else theirs.delete(value);
    }
    const rest = new Map<string, Count>();
    for (const counts of theirs.values()) addTo(rest, "other", counts);
    const other = "other" in facet ? facet.other : { count: 0, disputed: 0 };
    const [count, disputed] = rest.get("other") ?? [0, 0];
    if (count !== other.count || disputed !== other.disputed)
      throw new Error(`the two sides do not count ${name} of ${filter} alike`);
  }
}

function addTo(counts: Map<string, Count>, value: string, [count, disputed]: Count): void {
  const [before, disputedBefore] = counts.get(value) ?? [0, 0];
  counts.set(value, [before + count, disputedBefore + disputed]);
}

function spelled(name: string, value: string): string {
  if (name === "category") return value.toLowerCase();
  return name === "month" ? `${value}-01 00:00:00` : value;
}

/** Row 12: two words, asked one at a time over one connection a side. */
export async function measureWords(bench: Bench): Promise<Measurement[]> {
  const [ours, peer] = [await startProxy(bench), await startArchivePeer(bench)];
  const questions = (await someMarkets(ours)).map(({ question }) => question);
  const pairs = randomPairs(questions, bench.options.effort.filters + warmUps);
  const named = (q: string) => new URLSearchParams({ q });
  const sides = {
    ours: overHttp(ours, (pair) => `/api/v1/markets/historical?pageSize=1&${named(pair)}`),
    peer: overHttp(peer, (pair) => `/total?${named(pair)}`),
  };
  const times = await latencies(pairs, sides, ({ ours: { total: left }, peer: { total: right } }, pair) => {
    if (left !== right) throw new Error(`the two sides do not find ${pair} as often: ${left} and ${right}`);
  });
  return [
    line(12, "two words with exact total: p50", "ms", times.ours, {
      ...against("Express + PostgreSQL, GIN", times.peer),
      ...atMost(0.5, "ratio"),
      note: `${times.ours.length} different pairs that occur, each asked once; ours sends the newest market too`,
    }),
  ];
}

/** Different pairs of words of one question each. Words of ASCII letters are those that both sides take for words. */
function randomPairs(questions: readonly string[], count: number): string[] {
  const random = drawing(1);
  const pairs = new Set<string>();
  while (pairs.size < count) {
    const question = questions[random(questions.length)]!;
    const words = [...new Set(question.toLowerCase().split(" "))].filter((word) => /^[a-z]{2,}$/.test(word));
    if (words.length < 2) continue;
    const [first] = words.splice(random(words.length), 1);
    pairs.add(`${first} ${words[random(words.length)]}`);
  }
  return [...pairs];
}
