import fc from "fast-check";
import type { FacetName } from "../../../schemas/filters.ts";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { bounds, forgeTiers } from "../../../schemas/versions.ts";
import type { Query } from "../http/archive-proxy.ts";
import { labels, plainWords } from "./plain-filter.ts";

/** A random request of the archive. */
export interface Combination {
  filters: Query;
  pageSize: number;
  page: number;
}

/**
 * How a condition relates to a market that exists: so that it matches it, just misses, or has nothing to do with it.
 */
const aims = ["at", "at", "at", "at", "beside", "elsewhere", "never"] as const;

interface Draw {
  aim: (typeof aims)[number];
  /** A number to choose by. */
  n: number;
  /** Another market. */
  other: HistoricalMarket;
}

const dimensionBounds = marketDimensionKeys.flatMap((key) => [`min_${key}`, `max_${key}`]);
const names = [
  "category",
  "tier",
  "outcome",
  "disputed",
  "formula_version",
  "weight_version",
  "q",
  "q",
  "from",
  "to",
  "min_composite",
  "max_composite",
  ...dimensionBounds,
];

/** 0 to 8 conditions of every kind in any order, their values taken from, or near to, those of existing markets. */
export function combinations(markets: readonly HistoricalMarket[]): fc.Arbitrary<Combination> {
  const market = fc.nat(markets.length - 1).map((place) => markets[place]!);
  const draw: fc.Arbitrary<Draw> = fc.record({
    aim: fc.constantFrom(...aims),
    n: fc.nat(2 ** 30),
    other: market,
  });
  return fc
    .record({
      chosen: fc.shuffledSubarray(names, { maxLength: 8 }),
      pivot: market,
      draws: fc.array(draw, { minLength: 8, maxLength: 8 }),
      pageSize: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: 1, max: 20 }) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 500 }) },
      ),
      page: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(1, 2_147_483_647)),
    })
    .map(({ chosen, pivot, draws, pageSize, page }) => {
      const values = chosen.map((name, place) => [name, chooseValue(name, pivot, draws[place]!)] as const);
      return { filters: inOrder(Object.fromEntries(values)), pageSize, page };
    });
}

/** A range that is upside down is refused, so its ends change places; times get their spelling last. */
function inOrder(query: Query): Query {
  for (const name of Object.keys(query)) {
    const end = name === "from" ? "to" : name.replace("min_", "max_");
    const [low, high] = [query[name], query[end]];
    if (end !== name && typeof low === "number" && typeof high === "number" && low > high) {
      query[name] = high;
      query[end] = low;
    }
  }
  const spelled = Object.entries(query).map(([name, value], place) => [
    name,
    name === "from" || name === "to" ? spellTime(Number(value), Number(value) + place) : value,
  ]);
  return Object.fromEntries(spelled);
}

function chooseValue(name: string, pivot: HistoricalMarket, { aim, n, other }: Draw): string | number {
  const market = aim === "elsewhere" ? other : pivot;
  switch (name) {
    case "tier":
      return tiersNear(market.tier, aim, n);
    case "disputed":
      return String(aim === "beside" ? !market.disputed : market.disputed);
    case "q":
      return wordsNear(market.question, aim, n);
    case "from":
    case "to":
      return timeNear(Date.parse(market.resolvedAt), aim, n);
    default: {
      const label = labels[name as FacetName];
      return label ? labelNear(name, label(market), aim, n) : boundNear(name, market, aim, n);
    }
  }
}

/** A parameter must not be empty, but a version may be; one character longer, the longest label would be refused. */
function labelNear(name: string, label: string, aim: Draw["aim"], n: number): string {
  const text = aim === "never" ? label.replace(/.$/su, "?") : label;
  return (aim === "beside" || name === "category" ? anyCase(text, n) : text) || "?";
}

/** One tier or several, in any order. */
function tiersNear(tier: string, aim: Draw["aim"], n: number): string {
  if (aim === "never") return forgeTiers[n % forgeTiers.length]!;
  const others = forgeTiers.filter((other, place) => other !== tier && (n >> place) % 3 === 0);
  return aim === "at" ? [...others.slice(n % 4), tier, ...others.slice(0, n % 4)].join(",") : tier;
}

/** One to three words of a question, some of them cut short, in some letter case and between marks of any kind. */
function wordsNear(question: string, aim: Draw["aim"], n: number): string {
  const words = [...plainWords(question)];
  if (words.length === 0 || aim === "never") return "nobodyasksthis";
  const chosen = Array.from({ length: 1 + (n % 3) }, (_, place) => {
    const word = words[(n >> place) % words.length]!;
    const letters = [...word];
    const cut = 2 + ((n >> 4) % 4);
    if (aim === "beside") return word.repeat(2);
    if (letters.length > cut && (n >> place) % 4 === 0) return `${letters.slice(0, cut).join("")}*`;
    return n % 5 === 0 ? word.toUpperCase() : n % 7 === 0 ? word.normalize("NFD") : word;
  });
  return chosen.join([" ", ", ", "\u3000", " - "][n % 4]);
}

function boundNear(name: string, market: HistoricalMarket, aim: Draw["aim"], n: number): number {
  const field = name.slice("min_".length);
  const { min, max } = field === "composite" ? bounds.composite : bounds.score;
  const score = market.dimensions.find((dimension) => dimension.key === field)?.score;
  const value = field === "composite" ? market.composite : score!;
  if (aim === "never") return min + (n % (max - min + 1));
  if (aim === "beside") return Math.min(max, Math.max(min, value + (n % 2 ? 1 : -1)));
  // Somewhat wide, since otherwise almost nothing would match eight conditions at once.
  const slack = n % 3 === 0 ? 0 : n % 40;
  return name.startsWith("min_") ? Math.max(min, value - slack) : Math.min(max, value + slack);
}

const day = 86_400_000;

function timeNear(time: number, aim: Draw["aim"], n: number): number {
  if (aim === "beside") return time + (n % 2 ? 1 : -1);
  if (aim === "never") return Date.parse(n % 2 ? "1999-12-31T23:59:59.999Z" : "2100-01-01T00:00:00.000Z");
  return n % 3 === 0 ? time : time + ((n % 60) - 30) * day;
}

/** One of the ways to write an instant: only its day, or with as many decimals as it needs or more, in some zone. */
function spellTime(time: number, n: number): string {
  const utc = new Date(time).toISOString();
  if (n % 4 === 0) return utc.slice(0, 10);
  const decimals = /\.(\d*?)0*Z$/.exec(utc)?.[1]?.length ?? 3;
  const offsets = [0, 0, 60, -300, 345, -570, 840, 1439, -1439];
  const offset = offsets[n % offsets.length]!;
  const local = new Date(time + offset * 60_000).toISOString();
  const shown = decimals + (n % (4 - decimals));
  const zone = offset === 0 && n % 2 ? "Z" : `${offset < 0 ? "-" : "+"}${clock(Math.abs(offset))}`;
  return `${local.slice(0, 19)}${shown === 0 ? "" : `.${local.slice(20, 20 + shown)}`}${zone}`;
}

function clock(minutes: number): string {
  return [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, "0")).join(":");
}

/** Letters that fold to one another without being the upper and lower case of one another. */
const folding: Record<string, string> = {
  k: "\u212A",
  s: "\u017F",
  ſ: "S",
  σ: "ς",
  ς: "Σ",
  å: "\u212B",
  ß: "\u1E9E",
  "\u212A": "k",
  "\u212B": "å",
};

/** The text in some mixture of letter cases. */
function anyCase(text: string, n: number): string {
  const letters = Array.from(text, (letter, place) => {
    const forms = [letter, letter.toLowerCase(), letter.toUpperCase(), folding[letter] ?? letter];
    return forms[(n >> (place % 28)) % forms.length]!;
  });
  return n % 5 === 0 ? text : letters.join("");
}
