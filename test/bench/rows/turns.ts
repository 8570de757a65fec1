import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { facetNames } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { ask, type Target } from "../load/client.ts";
import { atMost, type Measurement, quantile } from "../run/measurement.ts";
import { startWatchedProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";
import { someMarkets } from "./filters.ts";

const concurrent = 10;
const archive = "/api/v1/markets/historical?pageSize=500";
const healthMilliseconds = 10;

/** Row 15: ten of the most expensive requests at once, each of them new, and /healthz meanwhile. */
export async function measureTurns(bench: Bench): Promise<Measurement[]> {
  const ours = await startWatchedProxy(bench, await bench.data.store());
  const markets = await someMarkets(ours);
  const figures = { turns: [] as number[], health: [] as number[] };
  for (let round = -1; round < bench.options.effort.rounds; round += 1) {
    const paths = Array.from({ length: concurrent }, (_, place) =>
      worst(markets, (round + 1) * concurrent + place),
    );
    await ours.longestTurn();
    const health = await askWhile(ours, askAtOnce(ours, paths));
    const turn = await ours.longestTurn();
    if (round < 0) continue;
    figures.turns.push(turn);
    figures.health.push(quantile(health, 0.99));
  }
  const note = `each round other pages of 500 scattered markets, facets and words`;
  return [
    {
      row: 15,
      work: "ten of the most expensive requests at once: longest turn of the main thread",
      unit: "ms",
      ours: figures.turns,
      ...atMost(15),
      note,
    },
    {
      row: 15,
      work: "the same: /healthz meanwhile, p99",
      unit: "ms",
      ours: figures.health,
      ...atMost(50),
      note: `asked every ${healthMilliseconds} ms`,
    },
  ];
}

/** A page whose markets lie in as many stored pages, all facets, or words with many endings; in turn. */
function worst(markets: readonly HistoricalMarket[], number: number): string {
  const { composite, question } = markets[(number * 31) % markets.length]!;
  const beginnings = question.toLowerCase().match(/\b[a-z]{2}/g) ?? [];
  const words = [...new Set(beginnings)].slice(0, 8).map((letters) => `${letters}*`);
  const range = (width: number) => `min_composite=${composite}&max_composite=${composite + width}`;
  if (number % 3 === 0 || words.length === 0) return `${archive}&${range(0)}`;
  if (number % 3 === 1) return `/api/v1/markets/facets?by=${facetNames.join()}&${range(number)}`;
  return `${archive}&${new URLSearchParams({ q: words.join(" ") })}`;
}

async function askAtOnce(target: Target, paths: readonly string[]): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  await Promise.all(paths.map((path) => ask(target, path, agent)));
  agent.destroy();
}

/** Milliseconds of the answers of /healthz until the work is done. */
async function askWhile(target: Target, working: Promise<void>): Promise<number[]> {
  const milliseconds: number[] = [];
  let over = false;
  const ended = working.finally(() => {
    over = true;
  });
  while (!over) {
    milliseconds.push((await ask(target, "/healthz")).milliseconds);
    await pause(healthMilliseconds);
  }
  await ended;
  return milliseconds;
}
