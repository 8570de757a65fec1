import { z } from "zod";
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOverride,
  type ZodOpenApiPathsObject,
} from "zod-openapi";
import { components } from "../components.ts";
import { type Endpoint, type EndpointId, endpoints } from "../endpoints.ts";
import { BatchRequest, makeProblem } from "../envelopes.ts";
import type { ErrorCode } from "../errors.ts";
import { headers } from "../headers.ts";
import { meanings } from "../meanings.ts";
import { contactText } from "../names.ts";
import { plans } from "../plans.ts";
import { FeedCommand, feedComponents } from "../rooms/feed.ts";
import { operationsOf, tags } from "./operations.ts";
import { problemExamples } from "./responses.ts";

const quotas = Object.entries(plans).map(([name, { dailyQuota }]) => `${name} ${dailyQuota}`);

const description = `Risk scores of DeFi protocols and an archive of resolved prediction markets.

Paths are matched byte for byte: another spelling of an address is 404 \`NOT_FOUND\`. HEAD works wherever GET does; another
method is 405 \`METHOD_NOT_ALLOWED\` with \`Allow\`. Every answer under /api/v1 is open to every site (CORS), and an OPTIONS
request needs no key.

Requests a UTC day: ${quotas.join(", ")}, unless the key says otherwise; without a key per address (IPv6: per /64). A unit is
given back for 304, unless it was asked for with \`If-None-Match: *\`, and for 5xx. Metered answers carry \`X-RateLimit-*\`, \`RateLimit\` and \`RateLimit-Policy\`.

Errors have one shape, \`Problem\`, as \`application/problem+json\`; \`code\` is what a program should look at.

Agents have the same as tools, with the same keys, at \`POST /mcp\`, by the Model Context Protocol.

## What the numbers mean

| field | meaning |
|---|---|
${Object.values(meanings)
  .map(({ field, meaning }) => `| ${field} | ${meaning} |`)
  .join("\n")}`;

/**
 * The API's description in OpenAPI 3.1, with an operation for each row of an endpoint table. `apiUrl` is the service's
 * own address, where it is known, and `contact` where a key comes from.
 */
export function describeApi(
  table: Record<EndpointId, Endpoint> = endpoints,
  { apiUrl, contact }: { apiUrl?: URL | undefined; contact?: string | undefined } = {},
) {
  const paths: ZodOpenApiPathsObject = {};
  for (const { path, method, operation } of operationsOf(table)) {
    paths[path] = { ...paths[path], [method]: operation };
  }
  const examples = Object.entries(problemExamples).map(([code, { endpoint: _, ...members }]) => {
    const value = makeProblem(code as ErrorCode, {
      requestId: "00000000-0000-4000-8000-000000000000",
      ...members,
    });
    return [code, { summary: value.title, value }];
  });
  const whole: ZodOpenApiObject = {
    openapi: "3.1.1",
    info: {
      title: "Protocol Risk Score Service",
      version: "1",
      description,
      ...(contact !== undefined && {
        contact: { [contact.startsWith("mailto:") ? "email" : "url"]: contactText(contact) },
      }),
    },
    // Generated clients append paths to it.
    servers: [{ url: apiUrl?.href.replace(/\/$/, "") ?? "/" }],
    tags: [...tags],
    paths,
    components: {
      schemas: { ...components, ...feedComponents },
      headers,
      examples: Object.fromEntries(examples),
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "The key behind the word Bearer." },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key", description: "The key alone." },
      },
    },
  };
  const api = createDocument(whole, { override: forGenerators });
  for (const { path } of Object.values(table).filter(({ method }) => method === "WS")) {
    const item = api.paths?.[path] ?? {};
    const { get: live } = item;
    if (!live) continue;
    // As an operation, the live feed would become a plain GET in generated clients, which always gets 426.
    delete item.get;
    Object.assign(item, { summary: live.summary, "x-websocket": live });
    // /docs/ does not show a path that has no operations.
    api.info.description += `\n\n## ${live.summary}\n\n\`WS ${path}\`. ${live.description}`;
  }
  return api;
}

/** What clients send. */
const sent: Record<string, unknown> = {
  BatchRequest,
  FeedCommand,
};

/**
 * Rewrites what zod says into what generators of clients can compile: null, and what can be null, in one schema without
 * alternatives; whether a number is an integer; a time by its format alone. It does not close answers, because they may
 * get more members (INTERFACE 9).
 */
const forGenerators: ZodOpenApiOverride = ({ zodSchema, jsonSchema }) => {
  if (zodSchema instanceof z.ZodNull) {
    delete jsonSchema.type;
    jsonSchema.const = null;
  }
  if (!Object.values(sent).includes(zodSchema) && jsonSchema.additionalProperties === false)
    delete jsonSchema.additionalProperties;
  if (Number.isInteger(jsonSchema.const)) jsonSchema.type = "integer";
  if (jsonSchema.format === "date-time") delete jsonSchema.pattern;
  if (!(zodSchema instanceof z.ZodNullable && jsonSchema.anyOf)) return;
  const [value] = jsonSchema.anyOf;
  const whole = value?.$ref ? jsonOf(zodSchema.unwrap() as z.ZodType) : value!;
  delete jsonSchema.anyOf;
  const values = whole.enum && { enum: [...whole.enum, null] };
  Object.assign(jsonSchema, whole, { type: [whole.type, "null"] }, values);
};

function jsonOf(schema: z.ZodType) {
  const { $schema: _, pattern: __, ...json } = z.toJSONSchema(schema);
  return json;
}
