import type { HistoricalMarket } from "../../../schemas/records.ts";
import { type Draw, drawing } from "../../helpers/store/drawing.ts";
import { scoreColumns } from "../peers/market-lines.ts";
import type { Bench } from "../run/run.ts";
import { ask, jsonOf, type Target, warmUps } from "./client.ts";

/** Markets from all over the archive. */
export async function someMarkets(target: Target): Promise<HistoricalMarket[]> {
  const page = async (query: string) =>
    jsonOf(await ask(target, `/api/v1/markets/historical?pageSize=${query}`));
  const last = Math.ceil((await page("1")).total / 500);
  const numbers = new Set([1, ...[0.25, 0.5, 0.75, 1].map((share) => Math.ceil(share * last))]);
  const markets: HistoricalMarket[] = [];
  for (const number of numbers) markets.push(...(await page(`500&page=${number}`)).markets);
  return markets;
}

/** Two lists of filters for one comparison each. Each filter is asked for once, so that nobody knows it. */
export async function newFilters({ options }: Bench, ours: Target): Promise<[string[], string[]]> {
  const each = options.effort.filters + warmUps;
  const all = randomFilters(await someMarkets(ours), 2 * each);
  return [all.slice(0, each), all.slice(each)];
}

/** `count` different queries of two to four conditions; each selects at least the market it was made from. */
export function randomFilters(markets: readonly HistoricalMarket[], count: number): string[] {
  const random = drawing(1);
  const queries = new Set<string>();
  while (queries.size < count) {
    const market = markets[random(markets.length)]!;
    const left = [...conditions];
    const chosen = Array.from({ length: 2 + random(3) }, () => left.splice(random(left.length), 1)[0]!);
    queries.add(new URLSearchParams(chosen.flatMap((condition) => condition(market, random))).toString());
  }
  return [...queries];
}

type Pairs = [string, string][];
const day = 86_400_000;

/** One for each field; ranges have one end or both. */
const conditions: readonly ((market: HistoricalMarket, random: Draw) => Pairs)[] = [
  ({ category }) => [["category", category]],
  ({ tier }) => [["tier", tier]],
  ({ resolvedOutcome }) => [["outcome", resolvedOutcome]],
  ({ disputed }) => [["disputed", String(disputed)]],
  ({ composite }, random) => range("composite", composite, { min: 300, max: 1000 }, 200, random),
  ({ resolvedAt }, random) => {
    const time = Date.parse(resolvedAt);
    const spelled = (days: number) => new Date(time + days * day).toISOString();
    return [
      ["from", spelled(-random(120))],
      ["to", spelled(random(120))],
    ];
  },
  ...scoreColumns.map((key) => ({ dimensions }: HistoricalMarket, random: Draw) => {
    const score = dimensions.find((dimension) => dimension.key === key)!.score;
    return range(key, score, { min: 0, max: 100 }, 50, random);
  }),
];

function range(
  field: string,
  value: number,
  bounds: { min: number; max: number },
  width: number,
  random: Draw,
): Pairs {
  const low: Pairs[number] = [`min_${field}`, String(Math.max(bounds.min, value - random(width)))];
  const high: Pairs[number] = [`max_${field}`, String(Math.min(bounds.max, value + random(width)))];
  return [[low], [high], [low, high]][random(3)]!;
}
