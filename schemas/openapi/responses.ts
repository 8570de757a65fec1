import type { ZodOpenApiResponseObject, ZodOpenApiResponsesObject } from "zod-openapi";
import { type Endpoint, type EndpointId, ndjson } from "../endpoints.ts";
import { type ErrorCode, errors } from "../errors.ts";
import { plans } from "../plans.ts";
import { hasProblemExample } from "./examples.ts";
import { common, type HeaderName, ofLines, ofStatus, rateLimit, references } from "./headers.ts";

/** What an address answers in its own way, beside what follows from its row of the endpoint table. */
export interface Answers {
  /** Answers have a tag, and so there is a 304. */
  etag?: true;
  /** Codes that do not follow from the row. */
  codes?: readonly ErrorCode[];
  /** Further headers of a 200. */
  headers?: readonly HeaderName[];
  example?: unknown;
  /** The component that a line of the answer in NDJSON is, where there is one. */
  line?: string;
  linesExample?: string | undefined;
}

/** Codes that no address is safe from. */
const always = ["BAD_REQUEST", "REQUEST_TIMEOUT", "HEADERS_TOO_LARGE", "INTERNAL"] as const;

/** Every code that can occur at an address with one of its methods, in the order of the error table. */
function codesOf(endpoint: Endpoint, { codes = [] }: Pick<Answers, "codes">): ErrorCode[] {
  const { credentials, plan, metered, availability, path, body } = endpoint;
  const possible = new Set<ErrorCode>(always);
  const add = (...more: ErrorCode[]) => {
    for (const code of more) possible.add(code);
  };
  if (credentials === "checked") add("CONFLICTING_CREDENTIALS", "INVALID_API_KEY", "SNAPSHOT_UNAVAILABLE");
  if (availability === "announced") {
    add("COMING_SOON");
  } else {
    const { refusal } = plans[plan];
    if (refusal) add("API_KEY_REQUIRED", refusal);
    if (metered) add("QUOTA_EXCEEDED", "QUOTA_UNAVAILABLE");
    if (path.startsWith("/api/")) add("INVALID_PARAMETER");
    if (path.includes(":slug")) add("PROTOCOL_NOT_FOUND");
    if (body) add("UNSUPPORTED_MEDIA_TYPE", "BODY_TOO_LARGE", "INVALID_BODY", "BATCH_TOO_LARGE");
    add(...codes);
  }
  return allCodes.filter((code) => possible.has(code));
}

const allCodes = Object.keys(errors).filter((code): code is ErrorCode => code in errors);

/** Every response of an address. */
export function responsesOf(id: EndpointId, endpoint: Endpoint, answers: Answers): ZodOpenApiResponsesObject {
  const grouped = Map.groupBy(codesOf(endpoint, answers), (code) => errors[code].status);
  const refusals = [...grouped].map(([status, codes]) => {
    const examples = codes.filter((code) => hasProblemExample(code, id));
    return [status, problemResponse(endpoint, status, codes, examples)];
  });
  const success = endpoint.availability === "available" ? successOf(endpoint, answers) : {};
  return { ...success, ...Object.fromEntries(refusals) };
}

function successOf(endpoint: Endpoint, answers: Answers): ZodOpenApiResponsesObject {
  const { etag, headers = [], example, line, linesExample } = answers;
  const limits = endpoint.metered ? rateLimit : [];
  if (endpoint.method === "WS") {
    const upgrade = ["Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol"] as const;
    const names = ["X-Request-Id", "X-Snapshot-Id", ...limits, ...upgrade] as const;
    return { 101: { description: "The connection is live.", headers: references(names) } };
  }
  const names = [...common, ...limits, ...(etag ? (["ETag"] as const) : [])];
  const found: ZodOpenApiResponseObject = {
    description: endpoint.summary,
    headers: references([...names, ...(line ? ofLines : []), ...headers]),
    content: {
      "application/json": {
        ...(endpoint.response && { schema: endpoint.response }),
        ...(example !== undefined && { example }),
      },
    },
    ...(line && { "x-content": { [ndjson]: linesOf(line, linesExample) } }),
  };
  const held = { description: "What If-None-Match names is still so.", headers: references(names) };
  return { 200: found, ...(etag && { 304: held }) };
}

/**
 * OpenAPI 3.1 knows no sequences; 3.2 calls `itemSchema` what stands here. It is an extension because generated clients
 * take the type of an answer to be any of its media types: beside a string they would not know the members of a page.
 */
function linesOf(line: string, example: string | undefined) {
  return {
    description: `One ${line} a line, each line ended by a line feed.`,
    itemSchema: { $ref: `#/components/schemas/${line}` },
    ...(example !== undefined && { example }),
  };
}

// Answered before a unit is taken.
const unmetered = new Set([401, 403, 408, 431, 501]);

function problemResponse(
  { metered }: Endpoint,
  status: number,
  codes: readonly ErrorCode[],
  shown: readonly ErrorCode[],
): ZodOpenApiResponseObject {
  const limits = metered && !unmetered.has(status) ? rateLimit : [];
  const own = Object.entries(ofStatus).find(([of]) => Number(of) === status)?.[1] ?? [];
  const examples = shown.map((code) => [code, { $ref: `#/components/examples/${code}` }]);
  // First in allOf: the docs page makes an example of what comes first.
  const narrowed = { properties: { status: { const: status }, code: { enum: [...codes] } } };
  return {
    description: codes.map((code) => `\`${code}\`: ${errors[code].title}.`).join(" "),
    headers: references([...common, ...limits, ...own]),
    content: {
      "application/problem+json": {
        schema: { allOf: [narrowed, { $ref: "#/components/schemas/Problem" }] },
        ...(examples.length > 0 && { examples: Object.fromEntries(examples) }),
      },
    },
  };
}
