import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import type { ZodOpenApiResponseObject, ZodOpenApiResponsesObject } from "zod-openapi";
import type { Endpoint, EndpointId } from "../endpoints.ts";
import { errorCodes, Problem } from "../envelopes.ts";
import { type ErrorCode, errors } from "../errors.ts";
import { common, type HeaderName, ofLines, ofStatus, rateLimit, references } from "../headers.ts";
import { csv, ndjson } from "../media.ts";
import { plans } from "../plans.ts";
import { asOfParameter } from "../query.ts";
import { type TableId, tableColumns } from "../records.ts";

// Real answers over a sample. test/schemas/openapi-examples.test.ts compares them, and updates them when run with -u.
const folder = new URL("examples/", import.meta.url);

function exampleText(name: string): string | undefined {
  const file = new URL(name, folder);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/** An example without what others show: `{"$ref": "getMarket"}` stands for the record that this one is. */
export function answerExample(id: string): unknown {
  const text = exampleText(`${id}.json`);
  return text && JSON.parse(text, (_name, value) => (value?.$ref ? answerExample(value.$ref) : value));
}

// An example that no longer fits its schema is left out. If it threw, the test that updates examples could not run.

const Example = Problem.omit({ type: true, title: true, status: true, code: true, requestId: true }).extend({
  endpoint: z.string(),
});

/** Examples of errors by code, each with the endpoint that gave it. Not every code has one. */
export const problemExamples =
  z.partialRecord(Problem.shape.code, Example).safeParse(answerExample("problems")).data ?? {};

// The texts of these errors name the endpoint that answered, so they fit no other one.
const ofOneAddress: readonly ErrorCode[] = ["INVALID_PARAMETER", "API_KEY_REQUIRED"];

function hasProblemExample(code: ErrorCode, id: EndpointId): boolean {
  const { endpoint } = problemExamples[code] ?? {};
  return endpoint === id || (endpoint !== undefined && !ofOneAddress.includes(code));
}

/** What the document says of an endpoint beyond what follows from its row of the endpoint table. */
export interface Notes {
  text?: string;
  /** Answers have no ETag, so 304 is not possible. */
  uncached?: true;
  /** Error codes that do not follow from the row. */
  codes?: readonly ErrorCode[];
  headers?: readonly HeaderName[];
  /** A caller may ask for a range. */
  ranges?: true;
  /** The component that describes a line of the answer as NDJSON, where there is one. */
  line?: string;
}

const always = ["BAD_REQUEST", "REQUEST_TIMEOUT", "HEADERS_TOO_LARGE", "INTERNAL"] as const;

/** In the order of the error table. */
function codesOf(endpoint: Endpoint, { codes = [] }: Notes): ErrorCode[] {
  const { credentials, plan, metered, availability, path, body, query } = endpoint;
  const possible = new Set<ErrorCode>(always);
  const add = (...more: ErrorCode[]) => {
    for (const code of more) possible.add(code);
  };
  if (credentials === "checked") add("CONFLICTING_CREDENTIALS", "INVALID_API_KEY", "SNAPSHOT_UNAVAILABLE");
  // A name with another spelling is no address of the service.
  if (/[:*]/.test(path)) add("NOT_FOUND");
  if (availability === "announced") {
    add("COMING_SOON");
  } else {
    const { refusal } = plans[plan];
    if (refusal) add("API_KEY_REQUIRED", refusal);
    if (metered) add("QUOTA_EXCEEDED", "QUOTA_UNAVAILABLE");
    // Every answer that takes a unit is read from the store.
    if (metered) add("UPSTREAM_TIMEOUT", "SNAPSHOT_UNAVAILABLE");
    if (path.startsWith("/api/")) add("INVALID_PARAMETER");
    if (path.includes(":slug")) add("PROTOCOL_NOT_FOUND");
    if (path.includes(":id")) add("MARKET_NOT_FOUND");
    if (query.includes(asOfParameter)) {
      add("SNAPSHOT_NOT_FOUND", "SNAPSHOT_EXPIRED");
      // Earlier snapshots need a higher plan than the current one.
      add("API_KEY_REQUIRED", "AEGIS_REQUIRED");
    }
    if (body) add("UNSUPPORTED_MEDIA_TYPE", "BODY_TOO_LARGE", "INVALID_BODY", "BATCH_TOO_LARGE");
    add(...codes);
  }
  return errorCodes.filter((code) => possible.has(code));
}

export function responsesOf(id: EndpointId, endpoint: Endpoint, answers: Notes): ZodOpenApiResponsesObject {
  const grouped = Map.groupBy(codesOf(endpoint, answers), (code) => errors[code].status);
  const refusals = [...grouped].map(([status, codes]) => {
    return [status, problemResponse(id, endpoint, status, codes)];
  });
  const success = endpoint.availability === "available" ? successOf(id, endpoint, answers) : {};
  return { ...success, ...Object.fromEntries(refusals) };
}

function successOf(id: EndpointId, endpoint: Endpoint, answers: Notes): ZodOpenApiResponsesObject {
  const { uncached, headers = [], line, ranges } = answers;
  const example = answerExample(id);
  const isLines = endpoint.media === ndjson;
  const limits = endpoint.metered ? rateLimit : [];
  if (endpoint.method === "WS") {
    const upgrade = ["Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol"] as const;
    const names = ["X-Request-Id", "X-Snapshot-Id", ...limits, ...upgrade] as const;
    return { 101: { description: "The connection is live.", headers: references(names) } };
  }
  const names = [...common, ...limits, ...(uncached ? [] : (["ETag"] as const))];
  const extra = [...(line && !isLines ? ofLines : []), ...(ranges ? (["Accept-Ranges"] as const) : [])];
  const success: ZodOpenApiResponseObject = {
    description: endpoint.summary,
    headers: references([...names, ...extra, ...headers]),
    content: {
      ...(!isLines && {
        [endpoint.media ?? "application/json"]: {
          ...(endpoint.response && { schema: endpoint.response }),
          ...(example !== undefined && { example }),
        },
      }),
      ...(line && rowsOf(line, id, isLines ? [ndjson] : [ndjson, csv])),
      ...(id in tableColumns && {
        [csv]: textOf(id, "csv", `The columns ${tableColumns[id as TableId].join(", ")}. ${ofCsv}`),
      }),
    },
  };
  const held = {
    description: "The content is still the one that If-None-Match names.",
    headers: references(names),
  };
  const part = {
    ...success,
    description: "The range that was asked for.",
    headers: references([...names, ...extra, "Content-Range"]),
  };
  return { 200: success, ...(ranges && { 206: part }), ...(!uncached && { 304: held }) };
}

/**
 * The media types that are sequences of rows. OpenAPI 3.1 cannot describe sequences, so they are strings, with
 * `itemSchema` of OpenAPI 3.2 in an extension. JSON stands before them, because clients ask for the first type by
 * default.
 */
function rowsOf(line: string, id: EndpointId, types: readonly (typeof ndjson | typeof csv)[]) {
  const texts = {
    [ndjson]: `One ${line} a line, each line ended by a line feed.`,
    [csv]: `A header line, then one ${line} a record, dimensions by their scores alone. ${ofCsv}`,
  };
  const described = types.map((type) => [
    type,
    {
      ...textOf(id, type === csv ? "csv" : "ndjson", texts[type]),
      ...(type === ndjson && { "x-itemSchema": { $ref: `#/components/schemas/${line}` } }),
    },
  ]);
  return Object.fromEntries(described);
}

const ofCsv = `As RFC 4180 has it; with \`${csv}; bom=present\` a byte order mark comes first.`;

const textOf = (id: EndpointId, extension: "ndjson" | "csv", description: string) => ({
  schema: { type: "string" as const, description },
  example: exampleText(`${id}.${extension}`),
});

// Errors with these statuses come before a unit is taken, so they have no rate-limit headers.
const unmetered = new Set([401, 403, 408, 431, 501]);

function problemResponse(
  id: EndpointId,
  endpoint: Endpoint,
  status: number,
  codes: readonly ErrorCode[],
): ZodOpenApiResponseObject {
  const limits = endpoint.metered && !unmetered.has(status) ? rateLimit : [];
  const own = Object.entries(ofStatus).find(([of]) => Number(of) === status)?.[1] ?? [];
  const withExample = codes.filter((code) => hasProblemExample(code, id));
  const examples = withExample.map((code) => [code, { $ref: `#/components/examples/${code}` }]);
  return {
    description: codes.map((code) => `\`${code}\`: ${errors[code].title}.`).join(" "),
    headers: references([...common, ...limits, ...own]),
    // An extension, because a schema of Problem narrowed to these codes would be one more class in every generated
    // client.
    "x-codes": [...codes],
    content: {
      "application/problem+json": {
        schema: { $ref: "#/components/schemas/Problem" },
        ...(examples.length > 0 && { examples: Object.fromEntries(examples) }),
      },
    },
  };
}
