import { z } from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiParameters } from "zod-openapi";
import { type Endpoint, type EndpointId, endpoints } from "../endpoints.ts";
import {
  ExportList,
  historyDays,
  MarketIndex,
  maxBatchSlugs,
  maxSnapshotsListed,
  ScoreBatch,
} from "../envelopes.ts";
import { paging } from "../filters.ts";
import { csv, ndjson } from "../media.ts";
import { asOfParameter } from "../query.ts";
import {
  Digest,
  ExportName,
  HistoricalMarket,
  LogFileName,
  MarketId,
  ProtocolScore,
  ProtocolSlug,
} from "../records.ts";
import { feedMessages, feedText } from "../rooms/feed.ts";
import { answerExample, type Notes, responsesOf } from "./responses.ts";

/** Groups of operations, in the order of /docs/. */
export const tags = [
  { name: "Scores", description: "Risk scores of DeFi protocols." },
  { name: "Archive", description: "Resolved prediction markets." },
  { name: "Snapshots", description: "What was published, and when." },
  { name: "Service", description: "The service itself. Nothing here is metered." },
] as const;

function tagOf(path: string): (typeof tags)[number]["name"] {
  if (path.startsWith("/api/v1/markets")) return "Archive";
  if (path.startsWith("/api/v1/snapshots")) return "Snapshots";
  return /^\/api\/v1\/(?:scores|tiers|ws)/.test(path) ? "Scores" : "Service";
}

const stale = ["Age", "Cache-Status"] as const;

const proofText =
  "`inclusion` leads from there to the tree that `checkpoint` signs. Checking it needs SHA-256 and Ed25519 " +
  "only. A caller whose `Accept` prefers `text/plain` gets the same as one text of c2sp.org/tlog-proof, or " +
  "404 when nobody signed the log.";

const partsText =
  "The hash of a part, in any snapshot that is kept, is the SHA-256 of a segment's header or of its words, the root of a " +
  "section, the leaf hash of a chunk of one, or the root of a page. Of a page come the leaf hashes of its " +
  "markets, 32 bytes each, from the oldest up.";
const partsPrice = "It costs one unit for every 256 KiB, taken as they are sent.";

const notes: Partial<Record<EndpointId, Notes>> = {
  listScores: { codes: ["UPSTREAM_ERROR"], headers: stale },
  getScore: { codes: ["UPSTREAM_ERROR"], headers: stale },
  batchScores: {
    uncached: true,
    text:
      `At most ${maxBatchSlugs} slugs and 16 KiB. Records come in the order asked, each slug once; ` +
      "slugs that are not scored are listed in `notFound`, and are no error.",
  },
  scoreHistory: {
    text: `The scoring runs of the ${historyDays} days up to the protocol's newest one, oldest first.`,
  },
  scoreProof: {
    text: `\`proof\` leads from the text in \`score\` to the commit's \`entry\` in the public log. ${proofText}`,
  },
  tiers: {
    text:
      "`changes` are the newest first, at most 500, as the snapshots tell that are kept: `at` is when the first of " +
      "them with the new tier was published, and `since` when the oldest of them was.",
  },
  scoreFeed: {
    codes: ["UPGRADE_REQUIRED", "TOO_MANY_CONNECTIONS"],
    text: feedText(answerExample("scoreFeed")),
  },
  marketsHistorical: {
    headers: ["Link"],
    line: "HistoricalMarket",
    codes: ["CURSOR_MISMATCH", "INVALID_CURSOR", "CURSOR_EXPIRED", "TOO_MANY_CONNECTIONS"],
    text:
      "Parameters combine; one that is unknown, repeated, empty or malformed is refused, never ignored. To walk the " +
      "archive, pass each answer's `nextCursor` as `cursor` until it is null: `total` stays constant, and no " +
      "market is " +
      "missed or repeated, whatever is published meanwhile. `page` and `cursor` exclude each other.\n\n" +
      `A caller whose \`Accept\` prefers \`${ndjson}\` or \`${csv}\` gets all matching markets in one answer, ` +
      "from one " +
      "snapshot; `page` and `pageSize` are refused then.\n\n" +
      `It costs one unit for every ${paging.maxPageSize} markets, taken as they are sent. An answer that ` +
      "breaks off has fewer markets than `X-Count`. To continue, send its `X-Cursor` as `cursor` and " +
      "the number of whole markets received as `skip`.",
  },
  marketFacets: {
    text:
      "Counts the markets that match the filters by each of the fields in `by`: labels by value, scores in " +
      "buckets, and times by UTC month. Every figure is exact, and the buckets of a facet, with `other`, " +
      "add up to `total`. Labels that differ in letter case only are different values.",
  },
  marketChanges: {
    line: "ChangeLine",
    headers: ["X-Since-Snapshot-Id", "X-Count", "X-Archive-Root"],
    codes: ["SNAPSHOT_NOT_FOUND", "SNAPSHOT_EXPIRED", "TOO_MANY_CONNECTIONS"],
    text:
      `Always \`${ndjson}\`: deletes by id, then puts in the archive's order. Each id comes at most once. ` +
      "Applied to an exact " +
      "copy of `since`, they give an exact copy of the snapshot in `X-Snapshot-Id`. `until` may also be older " +
      "than `since`.\n\n" +
      `It costs one unit for every ${paging.maxPageSize} lines, taken as they are sent. A far difference ` +
      "that must be worked out first costs units for that too, which pay for lines as well. An answer that " +
      "breaks off has fewer lines than `X-Count`. To continue, repeat `since`, send its " +
      "`X-Snapshot-Id` as `until` and the number of whole lines received as `skip`.",
  },
  listExports: {
    text:
      "Columns are those of a record, typed, the scores of the dimensions by their keys, and `json`, the text byte for byte. An export is made some " +
      "time after its snapshot, and not of each.",
  },
  exportFile: {
    ranges: true,
    codes: ["SNAPSHOT_NOT_FOUND", "RANGE_NOT_SATISFIABLE", "TOO_MANY_CONNECTIONS"],
    text:
      "It costs one unit for every 256 KiB, taken as they are sent. To go on with a download that broke " +
      "off, ask for `Range: bytes=RECEIVED-` with the `ETag` as `If-Range`. Readers of Parquet fetch only " +
      "the ranges that they need. `ETag` is the file's SHA-256. Several ranges in one request are answered " +
      "with the whole file.",
  },
  marketIndex: {
    text:
      "Totals, facets and pages of markets follow from these bytes, which can be checked against `indexRoot` " +
      "in `entry`. `inclusion` leads from `entry` to the tree that `checkpoint` signs.",
  },
  indexPart: {
    ranges: true,
    codes: ["SECTION_NOT_FOUND", "RANGE_NOT_SATISFIABLE", "TOO_MANY_CONNECTIONS"],
    text: `${partsText} ${partsPrice}`,
  },
  indexParts: {
    codes: ["SECTION_NOT_FOUND", "TOO_MANY_CONNECTIONS"],
    text: `They come in the order asked; what names them tells their lengths. ${partsText} ${partsPrice}`,
  },
  marketAbsence: {
    codes: ["NOT_FOUND"],
    text:
      "Of the ids of each segment, which are sorted by the first 32 bits of their SHA-256, come the chunks around the " +
      "place of this one. They can be checked against `indexRoot` in `entry`. 404 when a market has the id. At " +
      "a million markets an answer has about 80 kB.",
  },
  marketProof: {
    text:
      "`proof` leads from the text in `market` to the commit's `entry` in the public log. Its hashes " +
      `take at most 1.5 KiB at a million markets and 10,000 commits. ${proofText}`,
  },
  listSnapshots: {
    uncached: true,
    text:
      `At most ${maxSnapshotsListed}: those that neither a rollback withdrew nor a collection deleted. ` +
      "Give an id as `asOf`, or any time: scores, histories, dimensions, pages, rows, facets, markets, " +
      "proofs and the index are then answered as they were.",
  },
  status: { uncached: true, codes: ["SNAPSHOT_UNAVAILABLE"] },
  checkpoint: {
    codes: ["NOT_FOUND", "SNAPSHOT_UNAVAILABLE"],
    text: "404 when the publisher does not sign. Keep it: the log of every later one must begin with this one's.",
  },
  log: {
    codes: ["UPSTREAM_TIMEOUT", "SNAPSHOT_UNAVAILABLE"],
    text:
      "The names of c2sp.org/tlog-tiles: `checkpoint`, `tile/LEVEL/INDEX`, `tile/entries/INDEX`, both with " +
      "`.p/WIDTH` where they are partial, and `checkpoints/SIZE` for every size that was signed. The " +
      "slashes in a name are written as they are: a client that sends `%2F` in their place gets 404.",
  },
  usage: { uncached: true, codes: ["QUOTA_UNAVAILABLE"] },
  healthz: { uncached: true },
  readyz: { uncached: true, codes: ["SNAPSHOT_UNAVAILABLE", "QUOTA_UNAVAILABLE"] },
};

/** The operation of every endpoint in the document. A WebSocket becomes the GET that opens it. */
export function operationsOf(table: Record<EndpointId, Endpoint>) {
  return described.map((id) => ({
    path: table[id].path.replaceAll(/[:*](\w+)/g, "{$1}"),
    method: table[id].method === "POST" ? ("post" as const) : ("get" as const),
    operation: operationOf(id, table[id]),
  }));
}

/** Endpoints in the document: those that answer data. Pages for people are not part of the API. */
const described = (Object.keys(endpoints) as EndpointId[]).filter((id) => "response" in endpoints[id]);

function operationOf(id: EndpointId, endpoint: Endpoint): ZodOpenApiOperationObject {
  const { text, ...answers } = notes[id] ?? {};
  const body = requestBodyOf(endpoint);
  return {
    operationId: id,
    tags: [tagOf(endpoint.path)],
    summary: endpoint.summary,
    description: [planText(endpoint), text].filter((part) => part !== undefined).join("\n\n"),
    "x-plan": endpoint.plan,
    security: securityOf(endpoint),
    requestParams: parametersOf(endpoint),
    ...(body && { requestBody: body }),
    responses: responsesOf(id, endpoint, answers),
    ...(endpoint.method === "WS" && { "x-messages": feedMessages }),
  };
}

function planText({ plan, metered, credentials, availability, query }: Endpoint): string {
  if (credentials === "none") return "Open to everyone; a key is ignored.";
  const who = plan === "free" ? "Plan: free, a key is not needed." : `Plan: ${plan}.`;
  const cost = metered ? "Costs one unit of the day's quota." : "Not metered.";
  const soon =
    availability === "announced" ? " Announced, not available yet: answers 501 `COMING_SOON`." : "";
  const back =
    plan !== "aegis" && query.includes(asOfParameter)
      ? ` \`${asOfParameter.name}\` needs a Developer key, and Aegis for more than ${historyDays} days back.`
      : "";
  return `${who} ${cost}${soon}${back}`;
}

function securityOf({ credentials, plan }: Endpoint): Record<string, string[]>[] {
  if (credentials === "none") return [];
  const key = [{ bearer: [] }, { apiKey: [] }];
  return plan === "free" ? [{}, ...key] : key;
}

function requestBodyOf({ body }: Endpoint): ZodOpenApiOperationObject["requestBody"] {
  if (!body) return undefined;
  const { data } = ScoreBatch.safeParse(answerExample("batchScores"));
  const example = data && { slugs: [...data.scores.map(({ slug }) => slug), ...data.notFound] };
  return {
    required: true,
    content: { "application/json": { schema: body.schema, ...(example && { example }) } },
  };
}

function parametersOf({ path, query }: Endpoint): ZodOpenApiParameters {
  const inQuery = query.map(({ name, schema, meaning, required }) => {
    const sent = schema instanceof z.ZodArray ? joined(schema) : schema;
    return [name, (required ? sent : sent.optional()).describe(meaning)];
  });
  const named = Object.entries(pathParameters).filter(([name]) => new RegExp(`/[:*]${name}(/|$)`).test(path));
  return {
    ...(named.length > 0 && { path: z.object(Object.fromEntries(named)) }),
    ...(query.length > 0 && { query: z.object(Object.fromEntries(inQuery)) }),
  };
}

/** A list as one text, since some generators of clients cannot put a list into one parameter. */
function joined({ element }: z.ZodArray): z.ZodString {
  const entry = element._zod.pattern!.source.slice(1, -1);
  return z.string().regex(new RegExp(`^${entry}(,${entry})*$`));
}

const scored = ProtocolScore.safeParse(answerExample("getScore")).data;
const market = HistoricalMarket.safeParse(answerExample("getMarket")).data;
const indexed = MarketIndex.safeParse(answerExample("marketIndex")).data?.segments[0];
const exported = ExportList.safeParse(answerExample("listExports")).data?.exports[0];

const pathParameters = {
  slug: inPath(ProtocolSlug, "Protocol identifier.", scored?.slug),
  id: inPath(MarketId, "The market's id, a UUID in lower case.", market?.id),
  hash: inPath(Digest, "Hash of the part.", indexed?.header.hash),
  snapshotId: inPath(Digest, "Snapshot of the export.", exported?.snapshotId),
  name: inPath(ExportName, "Name of the file.", exported?.files[0]?.name),
  logFile: inPath(LogFileName, "Name of the file below the log.", "checkpoint"),
};

function inPath(schema: z.ZodType, description: string, example: string | undefined): z.ZodType {
  return schema.meta({ description, ...(example !== undefined && { param: { example } }) });
}
