import { z } from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiParameters } from "zod-openapi";
import { type Endpoint, type EndpointId, endpoints, ndjson } from "../endpoints.ts";
import { historyDays, maxBatchSlugs, ScoreBatch } from "../envelopes.ts";
import { feedLimits, feedProtocol, keyEnded, keyProtocolPrefix } from "../feed.ts";
import { paging } from "../filters.ts";
import { ProtocolSlug } from "../primitives.ts";
import { archiveParameters, sinceParameter } from "../query.ts";
import { ProtocolScore } from "../records.ts";
import { answerExample, feedExamples, linesExample } from "./examples.ts";
import { type Answers, responsesOf } from "./responses.ts";

/** Groups of operations, in the order in which they are shown. */
export const tags = [
  { name: "Scores", description: "Risk scores of DeFi protocols." },
  { name: "Archive", description: "Resolved prediction markets." },
  { name: "Service", description: "The service itself. Nothing here is metered." },
] as const;

/** What is told of an address beyond its row of the endpoint table. */
interface Notes extends Answers {
  tag: (typeof tags)[number]["name"];
  text?: string;
}

/** Endpoints that are described: those that answer data. Pages are for people, and not of the API. */
type DescribedId = {
  [Id in EndpointId]: (typeof endpoints)[Id] extends { response: unknown } ? Id : never;
}[EndpointId];

const fromOrigin = ["UPSTREAM_ERROR", "UPSTREAM_TIMEOUT", "SNAPSHOT_UNAVAILABLE"] as const;
const fromStore = ["UPSTREAM_TIMEOUT", "SNAPSHOT_UNAVAILABLE"] as const;
const stale = ["Age", "Cache-Status"] as const;

const notes: Record<DescribedId, Notes> = {
  listScores: { tag: "Scores", etag: true, codes: fromOrigin, headers: stale },
  getScore: { tag: "Scores", etag: true, codes: fromOrigin, headers: stale },
  batchScores: {
    tag: "Scores",
    codes: fromStore,
    text:
      `At most ${maxBatchSlugs} slugs and 16 KiB. Records come in the order asked, each slug once; ` +
      "slugs of which no protocol is scored are listed, and are no error.",
  },
  scoreHistory: {
    tag: "Scores",
    etag: true,
    codes: fromStore,
    text: `The scoring runs of the ${historyDays} days up to the protocol's newest one, oldest first.`,
  },
  scoreDimensions: { tag: "Scores", etag: true, codes: fromStore },
  scoreFeed: {
    tag: "Scores",
    codes: [...fromStore, "UPGRADE_REQUIRED", "TOO_MANY_CONNECTIONS"],
    text: feedText(),
  },
  marketsHistorical: {
    tag: "Archive",
    etag: true,
    line: "HistoricalMarket",
    codes: [...fromStore, "CURSOR_MISMATCH", "INVALID_CURSOR", "CURSOR_EXPIRED", "TOO_MANY_CONNECTIONS"],
    text:
      "Parameters combine; one that is unknown, repeated, empty or malformed is refused, never ignored. To walk the " +
      "archive, pass each answer's `nextCursor` as `cursor` until it is null: `total` stays constant, and no market is " +
      "missed or repeated, whatever is published meanwhile. `page` and `cursor` exclude each other.\n\n" +
      `To callers whose \`Accept\` prefers \`${ndjson}\` it answers with all markets that match at once, of one snapshot; ` +
      "`page` and `pageSize` do not go with that.\n\n" +
      `It takes a unit for every ${paging.maxPageSize} lines, as they are sent. An answer that breaks off has fewer lines ` +
      "than `X-Count`: go on with its `X-Cursor` as `cursor` and, as `skip`, the number of whole lines received.",
  },
  status: { tag: "Service", codes: ["SNAPSHOT_UNAVAILABLE"] },
  usage: { tag: "Service", codes: ["QUOTA_UNAVAILABLE"] },
  healthz: { tag: "Service" },
  readyz: { tag: "Service", codes: ["SNAPSHOT_UNAVAILABLE"] },
  openapi: { tag: "Service", etag: true },
};

function feedText(): string {
  const messages = feedExamples.map((message) => JSON.stringify(message)).join("\n");
  return [
    "A WebSocket. Messages are JSON, one to a frame: `FeedMessage` from the service, `FeedCommand` from the client. " +
      "Every change of every publish is told, commit by commit; `hello` says where the feed begins.",
    `\`\`\`json\n${messages}\n\`\`\``,
    '`{"type":"subscribe","slugs":["…"]}` limits what is told from then on. After a lost connection go on with ' +
      "`since`; a snapshot that is no longer kept gives an `error` with `SNAPSHOT_EXPIRED`, then `hello`.",
    `Browsers send the key as a subprotocol: \`new WebSocket(url, ["${feedProtocol}", "${keyProtocolPrefix}KEY"])\`. ` +
      `A connection costs one unit; an owner may hold ${feedLimits.connectionsPerOwner} to each process. A frame of ` +
      `the client has at most ${feedLimits.messageBytes} bytes. Close code ${keyEnded.code}: the key has ended; 1001: ` +
      "the process ends, connect anew.",
  ].join("\n\n");
}

/** Every described row of a table, as an operation of its path; a WebSocket as the GET that opens it. */
export function operationsOf(table: Record<EndpointId, Endpoint>) {
  return described.map((id) => ({
    path: table[id].path.replace(":slug", "{slug}"),
    method: table[id].method === "POST" ? ("post" as const) : ("get" as const),
    operation: operationOf(id, table[id]),
  }));
}

const described = Object.keys(endpoints).filter((id): id is DescribedId => id in notes);

function operationOf(id: DescribedId, endpoint: Endpoint): ZodOpenApiOperationObject {
  const { tag, text, ...answers } = notes[id];
  const example = endpoint.method === "WS" ? undefined : answerExample(id);
  const body = requestBodyOf(endpoint);
  return {
    operationId: id,
    tags: [tag],
    summary: endpoint.summary,
    description: [planText(endpoint), text].filter((part) => part !== undefined).join("\n\n"),
    "x-plan": endpoint.plan,
    security: securityOf(endpoint),
    requestParams: parametersOf(endpoint),
    ...(body && { requestBody: body }),
    responses: responsesOf(id, endpoint, { ...answers, example, linesExample: linesExample(id) }),
    ...(endpoint.method === "WS" && { "x-messages": feedSchemas }),
  };
}

const feedSchemas = {
  subprotocol: feedProtocol,
  receives: { $ref: "#/components/schemas/FeedMessage" },
  sends: { $ref: "#/components/schemas/FeedCommand" },
};

function planText({ plan, metered, credentials, availability }: Endpoint): string {
  if (credentials === "none") return "Open to everyone; a key is not looked at.";
  const who = plan === "free" ? "Plan: free, a key is not needed." : `Plan: ${plan}.`;
  const cost = metered ? "Costs one unit of the day's quota." : "Not metered.";
  const soon =
    availability === "announced" ? " Announced, not available yet: answers 501 `COMING_SOON`." : "";
  return `${who} ${cost}${soon}`;
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
  return { required: true, content: { "application/json": { schema: body, ...(example && { example }) } } };
}

const queryParameters = [...archiveParameters, sinceParameter];

function parametersOf({ path, query }: Endpoint): ZodOpenApiParameters {
  const asked = queryParameters.filter(({ name }) => query.includes(name));
  const inQuery = asked.map(({ name, schema, meaning }) => [name, schema.optional().describe(meaning)]);
  return {
    ...(path.includes(":slug") && { path: z.object({ slug: slugParameter }) }),
    ...(asked.length > 0 && { query: z.object(Object.fromEntries(inQuery)) }),
  };
}

const scored = ProtocolScore.safeParse(answerExample("getScore")).data;
const slugParameter = ProtocolSlug.meta({
  description: "Protocol identifier.",
  ...(scored && { param: { example: scored.slug } }),
});
