import type { HistoricalMarket } from "../../schemas/records.ts";
import { type Draw, drawing } from "../helpers/store/drawing.ts";
import { scoreColumns } from "./peers/conditions.ts";
import { askJson, type Target } from "./servers.ts";

/** Asked for before anything is counted. */
export const warmUps = 30;

/** Markets from all over the archive. */
export async function someMarkets(target: Target): Promise<HistoricalMarket[]> {
  const page = (query: string) => askJson(target, `/api/v1/markets/historical?pageSize=${query}`);
  const last = Math.ceil((await page("1")).total / 500);
  const numbers = new Set([1, ...[0.25, 0.5, 0.75, 1].map((share) => Math.ceil(share * last))]);
  const markets: HistoricalMarket[] = [];
  for (const number of numbers) markets.push(...(await page(`500&page=${number}`)).markets);
  return markets;
}

/** `count` different queries of two to four conditions; each selects at least the market it was made from. */
export async function randomFilters(target: Target, count: number): Promise<string[]> {
  const markets = await someMarkets(target);
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

type Condition = (market: HistoricalMarket, random: Draw) => [string, string][];
const day = 86_400_000;

/** One for each field; ranges have one end or both. */
const conditions: readonly Condition[] = [
  ({ category }) => [["category", category]],
  ({ tier }) => [["tier", tier]],
  ({ resolvedOutcome }) => [["outcome", resolvedOutcome]],
  ({ disputed }) => [["disputed", String(disputed)]],
  ({ resolvedAt }, random) =>
    [-1, 1].map((way) => {
      const time = Date.parse(resolvedAt) + way * random(120) * day;
      return [way < 0 ? "from" : "to", new Date(time).toISOString()];
    }),
  ({ composite }, random) => range("composite", composite, [300, 1000], random),
  ...scoreColumns.map(
    (key): Condition =>
      ({ dimensions }, random) => {
        const { score } = dimensions.find((dimension) => dimension.key === key)!;
        return range(key, score, [0, 100], random);
      },
  ),
];

function range(field: string, value: number, [min, max]: [number, number], random: Draw): [string, string][] {
  const width = field === "composite" ? 200 : 50;
  const low: [string, string] = [`min_${field}`, String(Math.max(min, value - random(width)))];
  const high: [string, string] = [`max_${field}`, String(Math.min(max, value + random(width)))];
  return [[low], [high], [low, high]][random(3)]!;
}
