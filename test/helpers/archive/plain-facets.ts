import type { LabelFacet, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import type { FacetName } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";

type Markets = readonly HistoricalMarket[];

const labels: Partial<Record<FacetName, (market: HistoricalMarket) => string>> = {
  category: (market) => market.category,
  outcome: (market) => market.resolvedOutcome,
  tier: (market) => market.tier,
  disputed: (market) => String(market.disputed),
  formula_version: (market) => market.formulaVersion,
  weight_version: (market) => market.weightVersion,
};

/** A facet over the records themselves, in the words of the interface: an oracle, slow and plain. */
export function plainFacet(name: FacetName, markets: Markets, limit: number) {
  const label = labels[name];
  if (label) return labelsOf(markets, label, limit);
  return name === "month" ? monthsOf(markets) : scoresOf(markets, name);
}

function tallyOf(markets: Markets) {
  return { count: markets.length, disputed: markets.filter(({ disputed }) => disputed).length };
}

function labelsOf(markets: Markets, of: (market: HistoricalMarket) => string, limit: number): LabelFacet {
  const groups = [...Map.groupBy(markets, of)];
  groups.sort(([a, those], [b, others]) => others.length - those.length || (a < b ? -1 : 1));
  const buckets = groups.slice(0, limit).map(([value, those]) => ({ value, ...tallyOf(those) }));
  const other = tallyOf(groups.slice(limit).flatMap(([, those]) => those));
  return { distinct: groups.length, buckets, other };
}

/** Every month from the first to the last that has markets. */
function monthsOf(markets: Markets): MonthFacet {
  const groups = Map.groupBy(markets, ({ resolvedAt }) => resolvedAt.slice(0, 7));
  const seen = [...groups.keys()].sort();
  const buckets: MonthFacet["buckets"] = [];
  for (let month = seen[0]; month !== undefined && month <= seen.at(-1)!; month = monthAfter(month))
    buckets.push({ value: month, ...tallyOf(groups.get(month) ?? []) });
  return { buckets };
}

function monthAfter(month: string): string {
  const next = new Date(`${month}-01T00:00:00.000Z`);
  next.setUTCMonth(next.getUTCMonth() + 1);
  return next.toISOString().slice(0, 7);
}

/** Ranges of one width, of which the last one has the highest score, too. */
function scoresOf(markets: Markets, name: string): ScoreFacet {
  const [width, count, min, max] = name === "composite" ? [50, 14, 300, 1000] : [10, 10, 0, 100];
  const scoreOf = ({ composite, dimensions }: HistoricalMarket) =>
    name === "composite" ? composite : dimensions.find(({ key }) => key === name)!.score;
  const groups = Map.groupBy(markets, (market) =>
    Math.min(Math.floor((scoreOf(market) - min) / width), count - 1),
  );
  const buckets = Array.from({ length: count }, (_, bucket) => {
    const from = min + bucket * width;
    const to = bucket === count - 1 ? max : from + width - 1;
    return { from, to, ...tallyOf(groups.get(bucket) ?? []) };
  });
  return { width, buckets };
}
