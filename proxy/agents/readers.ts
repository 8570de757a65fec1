import type { MarketPage, ScoreList } from "../../schemas/envelopes.ts";
import { meanings } from "../../schemas/meanings.ts";
import { plans } from "../../schemas/plans.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { type ToolName, toolLimits } from "../../schemas/rooms/tools.ts";
import { askFacets } from "../../snapshots/read/archive/facets.ts";
import { findMarket, proveMarket } from "../../snapshots/read/archive/market.ts";
import { askPage } from "../../snapshots/read/archive/paging.ts";
import { commitOf, readSnapshot } from "../../snapshots/read/catalog/as-of.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { checkpointFor, proveCommit } from "../../snapshots/read/catalog/log-proof.ts";
import { budgets, Memo } from "../../snapshots/read/memo.ts";
import { decodeCursor } from "../../snapshots/read/query/cursor.ts";
import { type AsOf, parseArchiveQuery, parseFacetQuery } from "../../snapshots/read/query/query.ts";
import {
  findScoreAsOf,
  proveScore,
  readBatch,
  readScore,
  type ScoreName,
  scoreNamed,
} from "../../snapshots/read/scores/scores.ts";
import type { Exchange } from "../exchange.ts";
import type { AppServices } from "../services.ts";

export type Arguments = Readonly<Record<string, unknown>>;

interface Found {
  snapshotId: string;
  /** The address of the site's page about it, from the `#` on. */
  page: string;
  /** As described in the tool's `result`. */
  data: unknown;
}

type ReaderServices = Pick<AppServices, "catalog" | "publicLog" | "now">;
type Read = (services: ReaderServices, exchange: Exchange, given: Arguments) => Promise<Found>;

const textOf = (json: Buffer) => JSON.parse(json.toString());

async function scoreOf(catalog: Catalog, asOf: AsOf | undefined, name: ScoreName) {
  const found = await findScoreAsOf(catalog, await commitOf(catalog, asOf), name);
  const read = async () => textOf(await readScore(catalog, found, name));
  const data = name === "list" ? await lists.get(found.object.hash, read) : await read();
  return { snapshotId: found.commit.snapshotId, data };
}

const lists = new Memo<ScoreList>(budgets.scoreLists);

/** The part of a plan's data that is about one protocol. */
const details =
  (kind: "histories" | "dimensions"): Read =>
  async ({ catalog }, { asOf }, { slug }) => {
    const found = await scoreOf(catalog, asOf, scoreNamed(catalog, kind, String(slug)));
    return { ...found, page: `#/protocols/${slug}` };
  };

/** A market of a list: the scores of its dimensions by key, and no evidence. */
function listedMarket({ dimensions, ...market }: HistoricalMarket) {
  return { ...market, dimensions: Object.fromEntries(dimensions.map(({ key, score }) => [key, score])) };
}

/** The site's page at an address with the query of a filter. It names the snapshot unless that is the current one. */
function shown(address: string, canonical: string, snapshotId: string, catalog: Catalog): string {
  const query = new URLSearchParams(canonical);
  if (snapshotId !== catalog.current()?.commit.snapshotId) query.set("asOf", snapshotId);
  return query.size > 0 ? `${address}?${query}` : address;
}

export const readers: Record<ToolName, Read> = {
  explain_numbers: async ({ catalog }) => {
    const { snapshotId } = catalog.requireCurrent().commit;
    const quotas = Object.entries(plans).map(([plan, { dailyQuota }]) => ({
      plan,
      unitsPerDay: dailyQuota,
    }));
    return { snapshotId, page: "#/", data: { meanings: Object.values(meanings), plans: quotas } };
  },

  list_scores: async ({ catalog }, { asOf }, { limit = toolLimits.scores.otherwise, skip = 0 }) => {
    const { snapshotId, data } = await scoreOf(catalog, asOf, "list");
    const scores = data.scores.slice(Number(skip), Number(skip) + Number(limit));
    return { snapshotId, page: "#/", data: { ...data, scores } };
  },

  get_score: async ({ catalog, publicLog }, { asOf }, { slug, proof }) => {
    const page = `#/protocols/${slug}`;
    if (proof !== true) {
      const { snapshotId, data } = await scoreOf(catalog, asOf, scoreNamed(catalog, "records", String(slug)));
      return { snapshotId, page, data: { record: data } };
    }
    const commit = await commitOf(catalog, asOf);
    const checkpoint = await checkpointFor(publicLog, commit, asOf);
    const prove = () => proveCommit(publicLog, commit, checkpoint);
    const proven = await proveScore(catalog, String(slug), commit, prove);
    return {
      snapshotId: commit.snapshotId,
      page,
      data: { record: JSON.parse(proven.score), proof: proven },
    };
  },

  compare_protocols: async ({ catalog }, _exchange, { slugs }) => {
    const { snapshotId, json } = await readBatch(catalog, slugs as string[]);
    return { snapshotId, page: "#/", data: textOf(json) };
  },

  score_history: details("histories"),

  score_dimensions: details("dimensions"),

  search_markets: async ({ catalog, now }, { parameters, asOf, caller }) => {
    const query = parseArchiveQuery(parameters!, asOf);
    const asked = await askPage(catalog, {
      ...query,
      pageSize: query.pageSize ?? toolLimits.markets.otherwise,
    });
    const { tier } = plans[caller!.plan];
    const planned = await asked.plan();
    const parts = await planned.body({ tier, timestamp: new Date(now()).toISOString(), gzip: false });
    const data: MarketPage = textOf(Buffer.concat(parts));
    const { snapshotId } = asked.commit;
    const { filter } = query.cursor === undefined ? query : decodeCursor(query.cursor);
    const page = shown("#/archive", filter.canonical, snapshotId, catalog);
    return { snapshotId, page, data: { ...data, markets: data.markets.map(listedMarket) } };
  },

  count_markets: async ({ catalog }, { parameters, asOf }) => {
    const query = parseFacetQuery(parameters!, asOf);
    const asked = await askFacets(catalog, query);
    const { snapshotId } = asked.commit;
    return {
      snapshotId,
      page: shown("#/archive", query.filter.canonical, snapshotId, catalog),
      data: await asked.plan(),
    };
  },

  get_market: async ({ catalog, publicLog }, { asOf }, given) => {
    const id = String(given.id);
    const commit = await commitOf(catalog, asOf);
    const { snapshotId } = commit;
    const page = shown(`#/markets/${id}`, "", snapshotId, catalog);
    if (given.proof !== true) {
      const { line } = await readSnapshot(catalog, commit, (snapshot) => findMarket(catalog, snapshot, id));
      return { snapshotId, page, data: { record: textOf(line) } };
    }
    const checkpoint = await checkpointFor(publicLog, commit, asOf);
    const proven = await proveMarket(catalog, id, commit, () => proveCommit(publicLog, commit, checkpoint));
    return { snapshotId, page, data: { record: JSON.parse(proven.market), proof: proven } };
  },
};
