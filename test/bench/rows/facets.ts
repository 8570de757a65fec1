import type { LabelFacet, MarketFacets, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { latencies, overHttp } from "../load/client.ts";
import { newFilters } from "../load/filters.ts";
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
