import type { ErrorCode } from "../../../schemas/errors.ts";
import { parseAsOf } from "../../../snapshots/read/answer.ts";
import { askFacets, parseFacetQuery } from "../../../snapshots/read/archive/counts.ts";
import { readParameters } from "../../../snapshots/read/parameters.ts";
import { plainFacet } from "../../helpers/archive/plain-filter.ts";
import type { Content } from "../contents.ts";
import { must, type Process } from "../kernel/kernel.ts";
import type { Server, World } from "../world.ts";
import { insist } from "./asking.ts";

const names = [
  "page",
  "pageSize",
  "cursor",
  "category",
  "min_composite",
  "max_composite",
  "disputed",
  "since",
  "until",
  "asOf",
  "by",
  "limit",
];

export const parametersOf = (search: string) => readParameters(search, names);

type Market = Content["markets"][number];

/** What a client asks for, and the model of it. */
export interface Filter {
  search: string;
  fits: (market: Market) => boolean;
}

export const filters: readonly Filter[] = [
  { search: "", fits: () => true },
  { search: "category=Crypto&", fits: ({ category }) => category === "Crypto" },
  { search: "min_composite=500&", fits: ({ composite }) => composite >= 500 },
  {
    search: "max_composite=600&disputed=true&",
    fits: ({ composite, disputed }) => composite <= 600 && disputed,
  },
];

export const linesOf = ({ markets, lines }: Content, { fits }: Filter) =>
  lines.filter((_, place) => fits(markets[place]!));

/** Counts what a filter selects, now or as of an earlier snapshot or time. */
export async function lookBack(world: World, process: Process, filter: Filter): Promise<void> {
  const { judge } = world;
  const then = judge.commits[process.draw(Math.max(1, judge.commits.length))]?.commit;
  if (!then) return;
  const time = Date.parse(then.entry.publishedAt) - process.draw(2);
  const asOf = [undefined, then.entry.snapshotId, new Date(time).toISOString()][process.draw(3)];
  const search = `${filter.search}by=category,month,composite&limit=2${asOf ? `&asOf=${asOf}` : ""}`;
  let [least, most, now] = [Number.POSITIVE_INFINITY, 0, 0];
  const look = async ({ catalog }: Server) => {
    const parameters = parametersOf(search);
    // A question that the network repeats is answered again.
    least = Math.min(least, catalog.current()?.commit.commit ?? 0);
    try {
      const asked = await askFacets(catalog, parseFacetQuery(parameters, parseAsOf(parameters)));
      return await asked.plan();
    } finally {
      most = Math.max(most, catalog.log.newest?.entry.commit ?? 0);
      now = catalog.log.now();
    }
  };
  // By what the proxy knew, each of these may have been current then.
  const meant = (known: number) =>
    asOf === undefined || (asOf !== then.entry.snapshotId && time >= now)
      ? judge.commits[known - 1]
      : judge.commits
          .slice(0, known)
          .findLast(({ commit }) =>
            asOf === then.entry.snapshotId
              ? commit.entry.snapshotId === asOf
              : commit.entry.publishedAt <= asOf && !judge.isWithdrawn(commit.entry.commit, known),
          );
  const right = () => Array.from({ length: most - least + 1 }, (_, more) => meant(least + more));
  const gone = (each: ReturnType<typeof meant>) =>
    !each ||
    judge.isWithdrawn(each.commit.entry.commit) ||
    // A publisher that lost against another one may have put the manifest again, and no more.
    [...each.reach].some((key) => !world.store.objects.has(key));
  const isDocumented = (code: ErrorCode) =>
    code === "SNAPSHOT_UNAVAILABLE" ||
    (code === "SNAPSHOT_NOT_FOUND" && right().includes(undefined)) ||
    (code === "SNAPSHOT_EXPIRED" && right().some(gone)) ||
    judge.thieves.size > 0;
  const answer = await insist(world, process, look, isDocumented);
  if (answer === undefined) return;
  const content = judge.contentOf(answer.snapshotId);
  const isRight = right().some((each) => each?.commit.entry.snapshotId === answer.snapshotId);
  must("a look back meets what was current then", isRight || judge.thieves.size > 0, () => search);
  const fitting = content.markets.filter(filter.fits);
  const by = ["category", "month", "composite"] as const;
  const model = Object.fromEntries(by.map((name) => [name, plainFacet(name, fitting, 2)]));
  const agrees = answer.total === fitting.length && JSON.stringify(answer.facets) === JSON.stringify(model);
  must("counts agree with the model", agrees, () => `${content.name}: ${JSON.stringify(answer.facets)}`);
  world.kernel.note(`${process.name} has counted ${answer.total}`);
}
