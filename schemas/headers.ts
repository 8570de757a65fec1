import type { ErrorCode, errors } from "./errors.ts";

const text = { type: "string" } as const;
const number = { type: "integer", minimum: 0 } as const;

/** Response headers, each a component under its name. */
export const headers = {
  "X-Request-Id": {
    description: "Identifies this request in the service's log.",
    schema: { type: "string", format: "uuid" },
  },
  "X-Snapshot-Id": {
    description: "Snapshot answered from; missing before the first one is loaded.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  ETag: {
    description: "For If-None-Match; 304 costs no unit, unless it was asked for with *.",
    schema: text,
  },
  "Accept-Ranges": { description: "bytes", schema: text },
  "Content-Range": {
    description: "Which bytes of the file came, and how many it has; with 416 the latter alone.",
    schema: text,
  },
  "Cache-Control": { description: "How long it may be kept, and by whom.", schema: text },
  "X-RateLimit-Limit": { description: "Units of the caller's UTC day.", schema: number },
  "X-RateLimit-Remaining": { description: "Units left.", schema: number },
  "X-RateLimit-Reset": { description: "When counting starts anew, in epoch seconds.", schema: number },
  RateLimit: { description: 'IETF form of the same: "plan";r=REMAINING;t=SECONDS.', schema: text },
  "RateLimit-Policy": { description: 'IETF form of the quota: "plan";q=LIMIT;w=86400.', schema: text },
  "Retry-After": {
    description: "Seconds after which to try again; of QUOTA_EXCEEDED those until counting starts anew.",
    schema: number,
  },
  "WWW-Authenticate": { description: "How to present a key.", schema: text },
  Link: {
    description: 'Where a page follows: <?cursor=CURSOR>; rel="next", relative to the address asked for.',
    schema: text,
  },
  Age: { description: "While the origin is away: seconds since the data was superseded.", schema: number },
  "Cache-Status": { description: "While the origin is away: says so.", schema: text },
  "X-Since-Snapshot-Id": {
    description: "Snapshot from which the changes lead.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  "X-Archive-Root": {
    description: "Root of the archive of the snapshot answered from: a copy of it has the same.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  "X-Count": {
    description: "In NDJSON and CSV: markets in this answer; of changes, its lines.",
    schema: number,
  },
  "X-Total-Count": { description: "In NDJSON and CSV: all markets that match.", schema: number },
  "X-Cursor": {
    description: "In NDJSON and CSV: the place where this answer begins, as a cursor.",
    schema: text,
  },
  Upgrade: { description: "websocket", schema: text },
  "Sec-WebSocket-Accept": { description: "As RFC 6455 has it.", schema: text },
  "Sec-WebSocket-Version": { description: "The one version spoken, 13.", schema: text },
  "Sec-WebSocket-Protocol": { description: "The protocol that was taken of those offered.", schema: text },
} as const;

export type HeaderName = keyof typeof headers;

export const common = ["X-Request-Id", "X-Snapshot-Id", "Cache-Control"] as const satisfies HeaderName[];

export const rateLimit = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
] as const satisfies HeaderName[];

/** Headers of answers with all rows. */
export const ofLines = [
  "X-Count",
  "X-Total-Count",
  "X-Cursor",
  "X-Archive-Root",
] as const satisfies HeaderName[];

export const ofStatus: Partial<Record<(typeof errors)[ErrorCode]["status"], readonly HeaderName[]>> = {
  401: ["WWW-Authenticate"],
  416: ["Content-Range"],
  426: ["Upgrade", "Sec-WebSocket-Version"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

export function references(names: readonly HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** The headers of helmet for answers that are data. Pages have a policy of their own. */
export const securityHeaders = {
  // JSON opened in a browser loads, frames and submits nothing.
  "content-security-policy": "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  // Every site may use the API (see CORS below). same-origin would forbid embedding its answers.
  "cross-origin-resource-policy": "cross-origin",
  "origin-agent-cluster": "?1",
  "referrer-policy": "no-referrer",
  "strict-transport-security": "max-age=31536000; includeSubDomains",
  "x-content-type-options": "nosniff",
  "x-dns-prefetch-control": "off",
  "x-download-options": "noopen",
  "x-frame-options": "SAMEORIGIN",
  "x-permitted-cross-domain-policies": "none",
  "x-xss-protection": "0",
} as const;

/** Headers of answers that pages of other sites may read. */
const exposed = [
  ...[...common, ...rateLimit, ...ofLines],
  "X-Since-Snapshot-Id, Accept-Ranges, Content-Range, Delta-Table-Version, Delta-Sharing-Capabilities, MCP-Session-Id",
  "Retry-After, WWW-Authenticate, Link, ETag, Age, Cache-Status",
].join(", ");

/** Request headers that they may send, one list for all addresses. An address ignores those that mean nothing to it. */
const sendable = [
  "authorization, x-api-key, content-type, if-none-match, if-modified-since, cache-control, pragma, range, if-range",
  "traceparent, tracestate, x-requested-with, delta-sharing-capabilities",
  "mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id",
].join(", ");

/** Vary of answers that depend on what the caller accepts and who it is. */
export const vary = "Accept-Encoding, Authorization, X-Api-Key";

/** Vary of answers whose media type the caller chooses. */
export const negotiatedVary = `${vary}, Accept`;

/** Lets pages of an origin read an answer; `*` stands for all. */
export const originHeaders = (origin: string) => ({
  "Access-Control-Allow-Origin": origin,
  "Access-Control-Expose-Headers": exposed,
});

/** Headers of answers that are open to every site, and never shared between callers by a cache. */
export const apiHeaders = { ...securityHeaders, ...originHeaders("*"), Vary: vary };

/** Headers of the answer to a preflight request for an address with these methods. */
export function preflightHeaders(methods: string): Record<string, string> {
  return {
    "Access-Control-Allow-Methods": methods,
    "Access-Control-Allow-Headers": sendable,
    "Access-Control-Max-Age": "86400",
  };
}

/** The subprotocol of the live feed. A browser offers its key beside it, as `bearer.KEY` (INTERFACE 6). */
export const feedProtocol = "scores.v1";
export const keyProtocolPrefix = "bearer.";
