import type { LabelFacet, MonthFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import type { FacetName } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import type { Query } from "../http/archive-proxy.ts";

/**
 * The archive's filters in the words of INTERFACE 4.5, over the records themselves. An oracle: slow, plain, and
 * independent of the code it judges.
 */
export function plainFilter(markets: readonly HistoricalMarket[], query: Query): HistoricalMarket[] {
  const conditions = Object.entries(query).map(([name, value]) => conditionOf(name, String(value)));
  return markets.filter((market) => conditions.every((holds) => holds(market)));
}

/** The texts that filters and facets compare, by name. */
export const labels: Partial<Record<FacetName, (market: HistoricalMarket) => string>> = {
  category: (market) => market.category,
  outcome: (market) => market.resolvedOutcome,
  tier: (market) => market.tier,
  disputed: (market) => String(market.disputed),
  formula_version: (market) => market.formulaVersion,
  weight_version: (market) => market.weightVersion,
};

type Condition = (market: HistoricalMarket) => boolean;

function conditionOf(name: string, value: string): Condition {
  switch (name) {
    case "category": {
      const pattern = sameInAnyCase(value);
      return (market) => pattern.test(market.category);
    }
    case "tier":
      return (market) => value.split(",").includes(market.tier);
    case "from": {
      const from = Date.parse(value);
      return (market) => Date.parse(market.resolvedAt) >= from;
    }
    case "to": {
      // A date alone covers that whole UTC day.
      const to = value.includes("T") ? Date.parse(value) : Date.parse(`${value}T23:59:59.999Z`);
      return (market) => Date.parse(market.resolvedAt) <= to;
    }
    case "q": {
      const asked = askedWords(value);
      return (market) => {
        const words = [...wordsOf(market.question)];
        return asked.every(({ text, prefix }) =>
          words.some((word) => (prefix ? word.startsWith(text) : word === text)),
        );
      };
    }
    case "page":
    case "pageSize":
      return () => true;
    default: {
      const label = labels[name as FacetName];
      return label ? (market) => label(market) === value : boundOf(name, Number(value));
    }
  }
}

function boundOf(name: string, bound: number): Condition {
  const [, end, field] = /^(min|max)_(.+)$/.exec(name) ?? [];
  if (!field) throw new Error(`the oracle knows no filter ${name}`);
  return (market) => (end === "min" ? scoreOf(market, field) >= bound : scoreOf(market, field) <= bound);
}

const scoreOf = ({ composite, dimensions }: HistoricalMarket, field: string): number =>
  field === "composite" ? composite : (dimensions.find(({ key }) => key === field)?.score ?? Number.NaN);

/** A whole string under simple case folding, which is how the flags `iu` compare. */
function sameInAnyCase(text: string): RegExp {
  return new RegExp(`^(?:${text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")})$`, "iu");
}

/** A word asked for, and whether it is the beginning of words. */
interface AskedWord {
  text: string;
  prefix: boolean;
}

/**
 * The words of a text, each once, in the words of INTERFACE 4.5: an oracle that looks at one character after another.
 * With `stars` a star ends a word and belongs to it.
 */
function cut(text: string, stars: boolean): Set<string> {
  const words = new Set<string>();
  let word = "";
  for (const character of [...text.normalize("NFKC").toLowerCase(), " "]) {
    if (/^(?:\p{Letter}|\p{Mark}|\p{Number})$/u.test(character)) word += character === "ς" ? "σ" : character;
    else {
      if (word !== "") words.add(stars && character === "*" ? `${word}*` : word);
      word = "";
    }
  }
  return words;
}

export const plainWords = (question: string): Set<string> => cut(question, false);

/** The words of questions that were looked at before: a thousand queries look at the same ones. */
const known = new Map<string, Set<string>>();

function wordsOf(question: string): Set<string> {
  const words = known.get(question) ?? plainWords(question);
  known.set(question, words);
  return words;
}

export const askedWords = (q: string): AskedWord[] =>
  [...cut(q, true)].map((word) => ({ text: word.replace("*", ""), prefix: word.endsWith("*") }));

type Markets = readonly HistoricalMarket[];

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
  const groups = Map.groupBy(markets, (market) =>
    Math.min(Math.floor((scoreOf(market, name) - min) / width), count - 1),
  );
  const buckets = Array.from({ length: count }, (_, bucket) => {
    const from = min + bucket * width;
    const to = bucket === count - 1 ? max : from + width - 1;
    return { from, to, ...tallyOf(groups.get(bucket) ?? []) };
  });
  return { width, buckets };
}
