import { ask, jsonOf, type Target } from "../load/client.ts";
import { against, atMost, line, type Measurement, quantile } from "../run/measurement.ts";
import { type Bench, inTurn } from "../run/run.ts";

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
    await compare(bench, ours, "unfiltered", "walk", [""]),
    await compare(bench, ours, "filtered", "filters", large),
  ];
}

const address = (filter: string, more: string) =>
  `/api/v1/markets/historical?${filter === "" ? "" : `${filter}&`}pageSize=${pageSize}${more}`;

const totalOf = async (target: Target, filter: string): Promise<number> =>
  jsonOf(await ask(target, address(filter, ""))).total;

async function compare(
  { options: { effort } }: Bench,
  target: Target,
  which: string,
  what: string,
  filters: readonly string[],
): Promise<Measurement> {
  const pairs: [string, string][] = [];
  for (const filter of filters) {
    // The last one is mostly short, and so would be quicker for having less to send.
    const page = Math.floor((await totalOf(target, filter)) / pageSize);
    pairs.push([address(filter, "&page=1"), address(filter, `&page=${page}`)]);
  }
  const { rounds } = await inTurn(effort.rounds, {
    async rounds() {
      const [first, last]: [number[], number[]] = [[], []];
      for (let request = 0; request < effort.requests; request += 1) {
        const [one, other] = pairs[request % pairs.length]!;
        first.push((await ask(target, one)).milliseconds);
        last.push((await ask(target, other)).milliseconds);
      }
      return { first: quantile(first, 0.99), last: quantile(last, 0.99) };
    },
  });
  const ours = rounds.map(({ last }) => last);
  return line(5, `the last page against page 1, ${which}: p99`, "ms", ours, {
    ...against(
      "page 1",
      rounds.map(({ first }) => first),
    ),
    ...atMost(1.2, "ratio"),
    note: `${filters.length} ${what}, ${effort.requests} requests a round of each, warm`,
  });
}
