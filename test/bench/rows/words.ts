import { latencies, overHttp, warmUps } from "../load/client.ts";
import { randomNumbers, someMarkets } from "../load/filters.ts";
import { startArchivePeer } from "../peers/peers.ts";
import { against, atMost, line, type Measurement } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

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
  const random = randomNumbers(1);
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
