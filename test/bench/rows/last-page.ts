import { ask, jsonOf, type Target } from "../load/client.ts";
import { atMost, type Measurement, quantile } from "../run/measurement.ts";
import type { Bench } from "../run/run.ts";

const archive = "/api/v1/markets/historical";
const pageSize = 100;
/** So many that the last page is far from the first. */
const fewest = 3 * pageSize;
const wantedFilters = 5;

/** Row 5: the last full page against page 1, both warm. */
export async function measureLastPages(
  bench: Bench,
  ours: Target,
  filters: readonly string[],
): Promise<Measurement[]> {
  const large: string[] = [];
  for (const filter of filters) {
    if (large.length === wantedFilters) break;
    if ((await totalOf(ours, filter)) >= fewest) large.push(filter);
  }
  return [
    await compare(bench, ours, { work: "the last page against page 1, unfiltered: p99", filters: [""] }),
    await compare(bench, ours, { work: "the last page against page 1, filtered: p99", filters: large }),
  ];
}

const address = (filter: string, more: string) =>
  `${archive}?${filter === "" ? "" : `${filter}&`}pageSize=${pageSize}${more}`;

async function totalOf(target: Target, filter: string): Promise<number> {
  return jsonOf(await ask(target, address(filter, ""))).total;
}

async function compare(
  { options }: Bench,
  target: Target,
  { work, filters }: { work: string; filters: readonly string[] },
): Promise<Measurement> {
  const pairs: [string, string][] = [];
  for (const filter of filters) {
    // The last one is mostly short, and so would be quicker for having less to send.
    const page = Math.floor((await totalOf(target, filter)) / pageSize);
    pairs.push([address(filter, "&page=1"), address(filter, `&page=${page}`)]);
  }
  const rounds: { first: number[]; last: number[] } = { first: [], last: [] };
  const { effort } = options;
  for (let round = -1; round < effort.rounds; round += 1) {
    const [first, last]: [number[], number[]] = [[], []];
    for (let request = 0; request < effort.requests; request += 1) {
      const [one, other] = pairs[request % pairs.length]!;
      first.push((await ask(target, one)).milliseconds);
      last.push((await ask(target, other)).milliseconds);
    }
    if (round < 0) continue;
    rounds.first.push(quantile(first, 0.99));
    rounds.last.push(quantile(last, 0.99));
  }
  return {
    row: 5,
    work,
    unit: "ms",
    ours: rounds.last,
    peer: { name: "page 1", rounds: rounds.first },
    ...atMost(1.2, "ratio"),
    note:
      `${filters.length} ${filters[0] === "" ? "walk" : "filters"}, ` +
      `${effort.requests} requests a round of each, warm`,
  };
}
