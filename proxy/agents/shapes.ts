import type { MarketPage, ScoreList } from "../../schemas/envelopes.ts";
import { meanings } from "../../schemas/meanings.ts";
import { plans } from "../../schemas/plans.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { type ToolName, toolLimits } from "../../schemas/rooms/tools.ts";
import { budgets, Memo } from "../../snapshots/read/memo.ts";
import { decodeCursor } from "../../snapshots/read/query/cursor.ts";
import { parseFilter } from "../../snapshots/read/query/filter.ts";
import type { Parameters } from "../../snapshots/read/query/parameters.ts";

export type Arguments = Readonly<Record<string, unknown>>;

/** A call of a tool, and what the endpoint answered that it stands for. */
interface Answered {
  given: Arguments;
  parameters: Parameters;
  json: string;
  /** The entity tag of the JSON, or "". */
  tag: string;
  snapshotId: string;
  isCurrent: boolean;
}

/** How a tool shows the answer of its endpoint. */
interface Shape {
  /** Parameters of the request that are not its own defaults. */
  otherwise?: Readonly<Record<string, string>>;
  /** As described in the tool's `result`; the whole JSON if left out. */
  data?: (answered: Answered) => unknown;
  /** The address of the site's page about it, from the `#` on. */
  page: (answered: Answered) => string;
}

const overview = () => "#/";
const protocol = ({ given }: Answered) => `#/protocols/${given.slug}`;
const archive = (answered: Answered) => shown("#/archive", answered);

/** The site's page at an address with the filter of a query. It names the snapshot unless that is the current one. */
function shown(address: string, { parameters, snapshotId, isCurrent }: Answered): string {
  const cursor = parameters.get("cursor");
  const { canonical } = cursor === undefined ? parseFilter(parameters) : decodeCursor(cursor).filter;
  const query = new URLSearchParams(canonical);
  if (!isCurrent) query.set("asOf", snapshotId);
  return query.size > 0 ? `${address}?${query}` : address;
}

/** A record, or the proof of one, which has its text as a member. */
const recordAs =
  (member: "score" | "market") =>
  ({ given, json }: Answered) => {
    const answer = JSON.parse(json);
    return given.proof === true ? { record: JSON.parse(answer[member]), proof: answer } : { record: answer };
  };

/** A market of a list: the scores of its dimensions by key, and no evidence. */
function listedMarket({ dimensions, ...market }: HistoricalMarket) {
  return { ...market, dimensions: Object.fromEntries(dimensions.map(({ key, score }) => [key, score])) };
}

const quotas = Object.entries(plans).map(([plan, { dailyQuota }]) => ({ plan, unitsPerDay: dailyQuota }));

/** By their tags. */
const lists = new Memo<ScoreList>(budgets.scoreLists);

export const shapes: Record<ToolName, Shape> = {
  explain_numbers: { page: overview, data: () => ({ meanings: Object.values(meanings), plans: quotas }) },
  list_scores: {
    page: overview,
    async data({ given: { limit = toolLimits.scores.otherwise, skip = 0 }, json, tag }) {
      const list = await lists.get(tag, async () => JSON.parse(json));
      return { ...list, scores: list.scores.slice(Number(skip), Number(skip) + Number(limit)) };
    },
  },
  get_score: { page: protocol, data: recordAs("score") },
  compare_protocols: { page: overview },
  score_history: { page: protocol },
  score_dimensions: { page: protocol },
  search_markets: {
    otherwise: { pageSize: String(toolLimits.markets.otherwise) },
    page: archive,
    data({ json }) {
      const page: MarketPage = JSON.parse(json);
      return { ...page, markets: page.markets.map(listedMarket) };
    },
  },
  count_markets: { page: archive },
  get_market: {
    page: (answered) => shown(`#/markets/${answered.given.id}`, answered),
    data: recordAs("market"),
  },
};
