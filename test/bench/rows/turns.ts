import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { facetNames } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { ask, type Target } from "../load/client.ts";
import { someMarkets } from "../load/filters.ts";
import { atMost, line, type Measurement, quantile } from "../run/measurement.ts";
import { startWatchedProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";

const concurrent = 10;
const archive = "/api/v1/markets/historical?pageSize=500";
const healthMilliseconds = 10;

/** Row 15: ten of the most expensive requests at once, each of them new, and /healthz meanwhile. */
export async function measureTurns(bench: Bench): Promise<Measurement[]> {
  const ours = await startWatchedProxy(bench);
  const markets = await someMarkets(ours);
  let asked = 0;
  const { figures } = await inTurn(bench.options.effort.rounds, {
    async figures() {
      const paths = Array.from({ length: concurrent }, (_, place) => worst(markets, asked + place));
      asked += concurrent;
      await ours.longestTurn();
      const health = await askWhile(ours, askAtOnce(ours, paths));
      return { turn: await ours.longestTurn(), health: quantile(health, 0.99) };
    },
  });
  const [turns, health] = [figures.map(({ turn }) => turn), figures.map(({ health }) => health)];
  return [
    line(15, "ten of the most expensive requests at once: longest turn of the main thread", "ms", turns, {
      ...atMost(15),
      note: "each round other pages of 500 scattered markets, facets and words",
    }),
    line(15, "the same: /healthz meanwhile, p99", "ms", health, {
      ...atMost(50),
      note: `asked every ${healthMilliseconds} ms`,
    }),
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
