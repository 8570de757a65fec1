import type { MarketDimensionKey } from "../../../schemas/market.ts";
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

type Condition = (market: HistoricalMarket) => boolean;

function conditionOf(name: string, value: string): Condition {
  switch (name) {
    case "category": {
      const pattern = sameInAnyCase(value);
      return (market) => pattern.test(market.category);
    }
    case "tier":
      return (market) => value.split(",").includes(market.tier);
    case "outcome":
      return (market) => market.resolvedOutcome === value;
    case "formula_version":
      return (market) => market.formulaVersion === value;
    case "weight_version":
      return (market) => market.weightVersion === value;
    case "disputed":
      return (market) => String(market.disputed) === value;
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
    default:
      return boundOf(name, Number(value));
  }
}

function boundOf(name: string, bound: number): Condition {
  const [, end, field] = /^(min|max)_(.+)$/.exec(name) ?? [];
  if (!field) throw new Error(`the oracle knows no filter ${name}`);
  const value = (market: HistoricalMarket) =>
    field === "composite" ? market.composite : scoreOf(market, field as MarketDimensionKey);
  return end === "min" ? (market) => value(market) >= bound : (market) => value(market) <= bound;
}

function scoreOf(market: HistoricalMarket, key: MarketDimensionKey): number {
  return market.dimensions.find((dimension) => dimension.key === key)?.score ?? Number.NaN;
}

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
