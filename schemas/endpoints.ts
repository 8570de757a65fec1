import { z } from "zod";
import * as envelopes from "./envelopes.ts";
import { ndjson, octets, parquet } from "./media.ts";
import type { Plan } from "./plans.ts";
import {
  archiveParameters,
  asOfParameter,
  changesParameters,
  facetParameters,
  filterParameters,
  idParameter,
  partsParameter,
  type QueryParameter,
  sinceParameter,
} from "./query.ts";
import { HistoricalMarket, ProtocolScore } from "./records.ts";
import { FeedMessage } from "./rooms/feed.ts";
import { sharingRoot, TableQuery } from "./rooms/sharing.ts";
import { Tiers } from "./store/stored-objects.ts";

export interface RequestBody {
  schema: z.ZodType;
  maxBytes: number;
}

export interface Endpoint {
  method: "GET" | "POST" | "WS";
  /**
   * `:slug` matches one path segment, `:id` a market's id, `:snapshotId` and `:name` a snapshot and a file of its
   * export, `:hash` and `:changes` a SHA-256, `:share`, `:schema` and `:table` names of Delta Sharing, `:file` one of
   * `files`, and `*logFile` the name of a file of the log, slashes included.
   */
  path: string;
  files?: readonly string[];
  /** The lowest plan that may call it. */
  plan: Plan;
  /**
   * `announced` endpoints answer 501 COMING_SOON after the check of credentials, so that an operator can launch one
   * later.
   */
  availability: "available" | "announced";
  /** Whether a request takes a unit of the caller's daily quota. */
  metered: boolean;
  /** `none`: the endpoint ignores credentials, even wrong ones. `address`: a key of the service signed the address. */
  credentials: "checked" | "address" | "none";
  /** The answer is made from many stored objects, so the proxy limits how many it makes at a time. */
  heavy?: true;
  query: readonly QueryParameter[];
  /**
   * What answers it in place of a handler of the API: a `file` of the service, or a `protocol` with middleware of its
   * own, which lets pages of the service itself and of loopback read the answer.
   */
  answeredBy?: "file" | "protocol";
  /** Pages of other sites may read the answer, as they may all of the API's. */
  crossSite?: true;
  body?: RequestBody | undefined;
  /** Schema of the body of a 200, or of a message of a WebSocket. */
  response?: z.ZodType;
  /** Media type of that body, where it is not JSON. NDJSON has one `response` on each line. */
  media?: string;
  summary: string;
}

const open = {
  method: "GET",
  plan: "free",
  availability: "available",
  metered: false,
  credentials: "none",
  query: [],
} as const;
const file = { ...open, answeredBy: "file" } as const;
const crossSiteFile = { ...file, crossSite: true } as const;
const metered = {
  method: "GET",
  availability: "available",
  metered: true,
  credentials: "checked",
  query: [],
} as const;
const archive = { ...metered, plan: "aegis" } as const;

/** Addresses of Delta Sharing. That protocol specifies them, so they are not in our OpenAPI document. */
const shares = `${sharingRoot}/shares` as const;
const tables = `${shares}/:share/schemas/:schema/tables` as const;
/** Parameters of Delta Sharing. */
const named = (...names: string[]): QueryParameter[] =>
  names.map((name) => ({ name, type: "text", schema: z.string(), meaning: "As Delta Sharing has it." }));
const pages = named("maxResults", "pageToken");
const signature = named("key", "expires", "sp", "sig");

/**
 * The endpoint table (INTERFACE 4). Routing, access, quotas, the OpenAPI document and the table of `proxy/README.md`
 * all derive from it.
 */
export const endpoints = {
  listScores: {
    ...metered,
    path: "/api/v1/scores",
    plan: "free",
    query: [asOfParameter],
    response: envelopes.ScoreList,
    summary: "All scored protocols with their current BRI and Forge Scale",
  },
  getScore: {
    ...metered,
    path: "/api/v1/scores/:slug",
    plan: "free",
    query: [asOfParameter],
    response: ProtocolScore,
    summary: "Full score breakdown of one protocol",
  },
  batchScores: {
    ...metered,
    method: "POST",
    path: "/api/v1/scores/batch",
    plan: "free",
    body: { schema: envelopes.BatchRequest, maxBytes: 16 * 1024 },
    response: envelopes.ScoreBatch,
    summary: "Up to 50 protocols at once",
  },
  scoreHistory: {
    ...metered,
    path: "/api/v1/scores/:slug/history",
    plan: "developer",
    query: [asOfParameter],
    response: envelopes.ScoreHistory,
    summary: "Seven days of score history",
  },
  scoreDimensions: {
    ...metered,
    path: "/api/v1/scores/:slug/dimensions",
    plan: "developer",
    query: [asOfParameter],
    response: envelopes.ScoreDimensions,
    summary: "Dimension breakdown with change and percentile",
  },
  scoreProof: {
    ...metered,
    path: "/api/v1/scores/:slug/proof",
    plan: "free",
    query: [asOfParameter],
    response: envelopes.ScoreProof,
    summary: "The score of one protocol, and the proof that it was published",
  },
  tiers: {
    ...metered,
    path: "/api/v1/tiers",
    plan: "free",
    heavy: true,
    response: Tiers,
    summary: "The tier of each protocol, and which tiers changed in 30 days",
  },
  marketsHistorical: {
    ...archive,
    path: "/api/v1/markets/historical",
    heavy: true,
    query: [...archiveParameters, asOfParameter],
    response: envelopes.MarketPage,
    summary: "Archive of resolved prediction markets, newest first, with filters and exact totals",
  },
  marketFacets: {
    ...archive,
    path: "/api/v1/markets/facets",
    heavy: true,
    query: [...facetParameters, ...filterParameters, asOfParameter],
    response: envelopes.MarketFacets,
    summary: "Exact numbers of markets by label, score or month, under any filters",
  },
  marketChanges: {
    ...archive,
    path: "/api/v1/markets/changes",
    heavy: true,
    query: changesParameters,
    response: envelopes.ChangeLine,
    media: ndjson,
    summary: "What differs between two snapshots of the archive, as one NDJSON answer",
  },
  listExports: {
    ...archive,
    path: "/api/v1/markets/exports",
    response: envelopes.ExportList,
    summary: "Exports of the archive as Parquet files, newest first",
  },
  exportFile: {
    ...archive,
    path: "/api/v1/markets/exports/:snapshotId/:name",
    response: envelopes.ExportBytes,
    media: parquet,
    summary: "A Parquet file of an export, or a range of its bytes",
  },
  marketIndex: {
    ...archive,
    path: "/api/v1/markets/index",
    heavy: true,
    query: [asOfParameter],
    response: envelopes.MarketIndex,
    summary: "What the filter index consists of, and the proof that it was published",
  },
  indexParts: {
    ...archive,
    path: "/api/v1/markets/index/sections",
    heavy: true,
    query: [partsParameter],
    response: envelopes.IndexBytes,
    media: octets,
    summary: "Up to 100 parts of the filter index by their hashes, one after the other",
  },
  marketAbsence: {
    ...archive,
    path: "/api/v1/markets/index/absence",
    heavy: true,
    query: [idParameter, asOfParameter],
    response: envelopes.MarketAbsence,
    summary: "All that shows that no market has an id, and the proof that it was published",
  },
  indexPart: {
    ...archive,
    path: "/api/v1/markets/index/:hash",
    heavy: true,
    response: envelopes.IndexBytes,
    media: octets,
    summary: "One part of the filter index by its hash, or a range of its bytes",
  },
  getMarket: {
    ...archive,
    path: "/api/v1/markets/:id",
    query: [asOfParameter],
    response: HistoricalMarket,
    summary: "One market of the archive",
  },
  marketProof: {
    ...archive,
    path: "/api/v1/markets/:id/proof",
    heavy: true,
    query: [asOfParameter],
    response: envelopes.MarketProof,
    summary: "One market, and the proof that it was published",
  },
  listShares: {
    ...archive,
    path: shares,
    query: pages,
    summary: "Delta Sharing: the shares, of which there is one",
  },
  getShare: { ...archive, path: `${shares}/:share`, summary: "Delta Sharing: a share" },
  listSchemas: {
    ...archive,
    path: `${shares}/:share/schemas`,
    query: pages,
    summary: "Delta Sharing: the schemas of a share",
  },
  listTables: { ...archive, path: tables, query: pages, summary: "Delta Sharing: the tables of a schema" },
  listAllTables: {
    ...archive,
    path: `${shares}/:share/all-tables`,
    query: pages,
    summary: "Delta Sharing: the tables of a share",
  },
  tableVersion: {
    ...archive,
    path: `${tables}/:table/version`,
    query: named("startingTimestamp"),
    summary: "Delta Sharing: the newest version of a table, or the first since a time",
  },
  tableMetadata: {
    ...archive,
    path: `${tables}/:table/metadata`,
    query: named("version", "timestamp"),
    summary: "Delta Sharing: the columns of a table",
  },
  queryTable: {
    ...archive,
    method: "POST",
    path: `${tables}/:table/query`,
    body: { schema: TableQuery, maxBytes: 64 * 1024 },
    summary: "Delta Sharing: the files of a table, with addresses that need no header",
  },
  tableChanges: {
    ...archive,
    path: `${tables}/:table/changes`,
    query: named(
      "startingVersion",
      "startingTimestamp",
      "endingVersion",
      "endingTimestamp",
      "includeHistoricalMetadata",
      "includeHistoricalProtocol",
    ),
    summary: "Delta Sharing: what versions of a table changed",
  },
  sharedChanges: {
    ...archive,
    path: `${sharingRoot}/files/:changes/:hash.parquet`,
    credentials: "address",
    query: signature,
    media: parquet,
    summary: "Delta Sharing: a file of changes, for 15 minutes after they were asked for",
  },
  sharedFile: {
    ...archive,
    path: `${sharingRoot}/files/:hash.parquet`,
    credentials: "address",
    query: signature,
    media: parquet,
    summary: "Delta Sharing: a file, for 15 minutes after a query named it",
  },
  listSnapshots: {
    ...metered,
    path: "/api/v1/snapshots",
    plan: "free",
    response: envelopes.SnapshotList,
    summary: "The snapshots that can be read, newest first",
  },
  scoreFeed: {
    ...metered,
    method: "WS",
    path: "/api/v1/ws/scores",
    plan: "developer",
    query: [sinceParameter],
    response: FeedMessage,
    summary: "Live feed of score changes",
  },
  agents: {
    ...open,
    credentials: "checked",
    answeredBy: "protocol",
    method: "POST",
    path: "/mcp",
    body: { schema: z.unknown(), maxBytes: 16 * 1024 },
    summary: "Tools for agents (Model Context Protocol): scores, markets, counts and what the numbers mean",
  },
  status: {
    ...open,
    path: "/api/v1/status",
    response: envelopes.Status,
    summary: "Which snapshot is served and how fresh it is",
  },
  checkpoint: {
    ...open,
    path: "/api/v1/checkpoint",
    response: envelopes.Checkpoint,
    media: "text/plain; charset=utf-8",
    summary: "The newest signature of the public log, which vouches for every commit in it",
  },
  log: {
    ...open,
    path: "/api/v1/log/*logFile",
    response: envelopes.LogFile,
    media: octets,
    summary: "The public log of all commits: its checkpoints, and its tree and entries in tiles",
  },
  usage: {
    ...open,
    credentials: "checked",
    path: "/api/v1/usage",
    response: envelopes.Usage,
    summary: "The caller's plan and what is left of the day's quota",
  },
  healthz: {
    ...open,
    crossSite: true,
    path: "/healthz",
    response: envelopes.Alive,
    summary: "The process is alive",
  },
  readyz: {
    ...open,
    crossSite: true,
    path: "/readyz",
    response: envelopes.Ready,
    summary: "The process can serve: snapshot and keys are loaded, and requests can be counted",
  },
  site: {
    ...file,
    path: "/",
    summary: "The site: scores, and with a key history and archive",
  },
  siteFile: {
    ...file,
    path: "/site/:file",
    files: ["api.json", "app.js", "icon.png", "icon.svg", "recompute.mjs", "style.css"],
    summary: "What the site loads",
  },
  client: {
    ...crossSiteFile,
    path: "/client.js",
    summary: "A client for browsers and Node, as one JavaScript module",
  },
  clientTypes: {
    ...crossSiteFile,
    path: "/client.d.ts",
    summary: "Its types",
  },
  clientModule: {
    ...crossSiteFile,
    path: "/client.mjs",
    summary: "The same client, for Node in any package",
  },
  clientModuleTypes: {
    ...crossSiteFile,
    path: "/client.d.mts",
    summary: "Its types",
  },
  recompute: {
    ...crossSiteFile,
    path: "/recompute.mjs",
    summary: "What the client loads to evaluate queries itself, as one JavaScript module",
  },
  clientPython: {
    ...crossSiteFile,
    path: "/client.py",
    summary: "The client for Python, as one file",
  },
  openapi: {
    ...crossSiteFile,
    path: "/openapi.json",
    response: envelopes.ApiDescription,
    summary: "This API's description, OpenAPI 3.1",
  },
  docs: {
    ...file,
    path: "/docs/",
    summary: "The same as a page, on which every address can be tried",
  },
  docsFile: {
    ...file,
    path: "/docs/:file",
    files: ["page.css", "start.js", "swagger-ui.css", "swagger-ui-bundle.js"],
    summary: "What that page loads",
  },
} as const satisfies Record<string, Endpoint>;

export type EndpointId = keyof typeof endpoints;

/** Endpoints that are answered by a file of the service, or by a protocol with a middleware of its own. */
export type AnsweredBy<By extends Endpoint["answeredBy"]> = {
  [Id in EndpointId]: (typeof endpoints)[Id] extends { answeredBy: By } ? Id : never;
}[EndpointId];
